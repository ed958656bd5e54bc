"""Notes of `check` on a valid release that may mean something other than intended.

`notes` has all of them, based on the declaration alone.
"""
