"""Show exact numbers about the data to a data steward: a confidential check.

A profile is not published, charged or recorded: the result goes to one terminal, or to one file
that only its owner can read. So this package may read exact answers of engines, as `noise` does,
and imports nothing that publishes. A choice that is based on a profile depends on the data, and no
guarantee covers it.
"""
