"""What is measured: one file for each aggregate, which tells all that other stages ask of it.

A file declares `BY_WORD`: the words by which a column asks for it, and what each becomes.
"""
