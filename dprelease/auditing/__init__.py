"""Audit whether a release, with its bounds and schema, keeps its guarantee.

An audit makes neighbouring tables of synthetic rows from the schemas alone. It runs the release on
these tables, and compares the exact results, the written files, the messages and the noisy results
with the claims of the plan. An audit opens no declared source: the module `stage` removes the
sources from the declaration before anything runs, and only this module opens engines or runs a
release. For this reason the package may read exact answers of engines, and replay random bits: the
rows are not about real people.
"""
