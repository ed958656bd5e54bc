"""Public values of columns: lists and files of values, their areas, and their labels."""
