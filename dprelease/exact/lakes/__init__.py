"""Tables of lakehouse formats: which files have the rows of a version, and what is in them."""
