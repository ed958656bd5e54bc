"""What is done with releases that exist: checking them, adding up parties, estimating from records.

Reads nothing but a folder that was published, and a ledger if it is asked to. `second_opinion`
prices the published noise by another way than the plan does, and imports nothing of `planning`.
"""
