"""Make neighbouring tables: find the units with the largest changes, and stack many pairs."""
