"""What the data owner declares: table schemas and release files."""
