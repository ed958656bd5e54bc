"""Audits: whether a release, with these bounds and this schema, keeps its word.

Neighbouring tables are made from the schemas alone. What the release would find of them, write,
print and draw is compared with what its plan claims. No declared source is opened: `stage` takes
the sources out of the declaration before anything runs, and it alone opens engines or runs a
release. That is why this folder may read what engines found, and replay bits: nobody is behind
these numbers.
"""
