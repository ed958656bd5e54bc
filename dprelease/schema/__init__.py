"""Models of the documents that the data owner writes: table schemas and release files."""
