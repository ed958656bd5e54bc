"""Contribution bounding outside of the engine: which rows of an id count, in NumPy.

The rule is that of `statements.bounding`, whose window functions do the same in the engine where it
can't be done here. Imports `exact` and lower layers; it holds true rows, so none of it may be
printed.
"""
