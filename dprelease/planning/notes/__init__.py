"""What `check` tells of a release that is in order, and may mean something else than was meant.

One file for each; `notes` has all of them. By the declaration alone.
"""
