"""Contribution bounding in NumPy, outside of the engine: select the rows of an id that count.

The rule is that of `statements.bounding`, whose window functions do the same in the engine where
this package can't. The package imports `exact` and lower layers. It holds true rows, so nothing of
it may be printed.
"""
