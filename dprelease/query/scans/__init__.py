"""Which tables are read together, decided from declarations alone.

No module here sees a row or writes SQL: `statements` writes the scan, `exact` runs it.
"""
