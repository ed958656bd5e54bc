"""What is measured: one file for each aggregate, which tells all that other stages ask of it.

A file declares `ASKED`: the words by which a column asks for it, and what each becomes.
"""
