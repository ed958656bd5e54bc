"""The published numbers: key figures, one picture for each declared table, and its table."""
