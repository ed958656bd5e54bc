"""What several mechanisms share; no file here is a mechanism that a release file can name."""
