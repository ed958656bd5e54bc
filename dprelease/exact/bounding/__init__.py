"""Contribution bounding outside of the engine: which rows of an id count, in NumPy.

The rule is that of `statements.bounding`, whose windows do the same in the engine for what can't be
done here. Imports `exact` and what stands below; holds true rows, so nothing of it is printed.
"""
