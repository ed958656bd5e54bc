"""Make neighbouring tables: units with the largest changes, and tables with many pairs."""
