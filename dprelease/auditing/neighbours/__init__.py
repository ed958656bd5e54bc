"""Make neighbouring rows: units with the largest changes, and tables that hold many pairs."""
