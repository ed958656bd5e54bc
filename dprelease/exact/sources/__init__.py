"""Readers of source types: one file each, which opens sources and proposes a schema for them."""
