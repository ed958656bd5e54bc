"""SQL that parses, compares and rounds the values of one row."""
