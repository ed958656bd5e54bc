"""The steward's confidential check: exact numbers about the data, for who may see the data.

Nothing here is published, charged or written down: what is found goes to one terminal, or to one
file that its owner alone can read. So this folder may read what engines found, as `noise` does, and
imports nothing that publishes. A choice that is made from it is made from the data: no guarantee
covers it.
"""
