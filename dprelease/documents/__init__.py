"""The manifests: what is said beside the tables, as models that read back what they wrote.

One file for each kind of release, what they share in `manifest`; `sealed` reads those of folders
that anybody may have written.
"""
