"""Metadata of a release for data catalogues and registries."""
