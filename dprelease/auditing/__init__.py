"""Audit whether a release, with its bounds and schema, keeps its guarantee.

An audit makes neighbouring tables from the schemas alone. It compares what the release would
compute from them, write, print and draw with the claims of its plan. No declared source is
opened:
`stage` removes the sources from the declaration before anything runs, and it alone opens engines
or runs a release. That is why this package may read exact answers of engines and replay random
bits: the data are no real people's.
"""
