"""Code that several mechanisms share; no file here has a mechanism that release files can name."""
