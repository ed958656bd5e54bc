"""Source types: what a schema may declare of each, and how each compares texts. Opens nothing."""
