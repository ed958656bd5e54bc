"""Decide, from declarations alone, which tables are read together.

No module here reads a row or writes SQL: `statements` writes the scan, `exact` runs it.
"""
