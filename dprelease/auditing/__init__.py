"""Audit whether a release, with its bounds and schema, keeps its guarantee.

An audit makes neighbouring tables from the schemas alone. It runs the release on these tables, and
compares all exact results, written files, messages and noisy results with the claims of the plan.
No declared source is opened: `stage` removes the sources from the declaration before anything runs,
and only `stage` opens engines or runs a release. This is why this package may read exact answers of
engines, and replay random bits: the rows are not about real people.
"""
