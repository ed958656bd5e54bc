"""Neighbours as rows: units that move most, and tables in which many pairs stand together."""
