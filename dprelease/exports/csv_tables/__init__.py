"""CSV files and their CSVW metadata."""
