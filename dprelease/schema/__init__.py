"""What the data owner declares: table schemas and release files, read with the place of every value."""
