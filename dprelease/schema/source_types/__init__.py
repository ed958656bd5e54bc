"""Source types: the keys that a schema may declare for each, and how each compares texts.

No module of this package opens a source.
"""
