"""The documents that are written beside tables: one model each, filled, written and read.

`release_manifest` has what all manifests share; `manifest`, `local_manifest` and `party_manifest`
each have the model of one kind of release and of its rehearsal, and the function that fills it.
"""
