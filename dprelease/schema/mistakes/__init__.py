"""Errors in declarations, in plain words, and the parts of a declaration that remain valid."""
