"""Show exact numbers about the data to a data steward: a confidential check.

Nothing here is published, charged or recorded: the result goes to one terminal, or to one file
that
only its owner can read. So this package may read exact answers of engines, as `noise` does, and
imports nothing that publishes. A choice based on it is based on the data, and no guarantee covers
it.
"""
