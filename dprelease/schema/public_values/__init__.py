"""Public values of columns: lists and files of them, where they lie, and their labels."""
