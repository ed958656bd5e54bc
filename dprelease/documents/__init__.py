"""The documents that are published next to tables: models that are filled, written and read.

`release_manifest` defines what all manifests share. `manifest`, `local_manifest` and
`party_manifest` each define the manifest of one kind of release and of its rehearsal, and the
function that fills it.
"""
