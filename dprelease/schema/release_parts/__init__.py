"""Models of parts of a release file."""
