"""Differentially private data releases: bounded aggregates, exact noise, one manifest."""

__version__ = "0.1.0"
