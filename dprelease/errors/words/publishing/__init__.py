"""Catalogue: what becomes of a release, from its files to its readers."""
