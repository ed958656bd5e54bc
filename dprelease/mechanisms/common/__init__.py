"""Code shared by several mechanisms; no file here is a mechanism of release files."""
