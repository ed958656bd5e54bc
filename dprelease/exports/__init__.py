"""Published tables in the formats that others read: one module for each, all of it post-processing.

An export is made from a release folder's Parquet tables, from what the manifest says, and from
nothing else, so that whoever has these can make it again, and `verify` does. It is the same bytes
every time: no clock, no random names, no order but the declared one. Imports no engine, no noise
and no entropy.
"""
