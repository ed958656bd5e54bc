"""Aggregates that the package does not know, added as a contributor would: see `tests/test_extension_points.py`.

`aggregates/` has their files, `register.py` their words and their SQL.
"""
