"""Privacy losses of one noisy cell: one file for each family of distributions."""
