"""Models of what the data owner declares: table schemas and release files."""
