"""First drafts of declarations, for `dprelease init`: from names, types and the first bytes.

Whatever is proposed from the data is marked as such, and quotes none of it.
"""
