"""Show exact numbers about the data to a data steward, for a confidential check.

A profile is not published, charged or recorded: it is printed on a terminal, or written to a file
that only its owner can read. For this reason the package may read exact answers of engines, like
the package `noise`, and it imports nothing that publishes. A choice that is based on a profile
depends on the data, so that no guarantee covers the choice.
"""
