"""Draft declarations for `dprelease init`, from names, types and the first bytes of a file.

Proposals from the data are marked as such, and quote none of it.
"""
