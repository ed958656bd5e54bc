"""Losses of one noisy cell: a file for each family of laws."""
