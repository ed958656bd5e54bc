"""Rewrite a SELECT over rows of people into the forms that a release file declares.

Sub-queries of rows become conditions and computed columns, a join becomes the join of the query,
and expressions inside aggregates and keys become computed columns with bounds.
"""
