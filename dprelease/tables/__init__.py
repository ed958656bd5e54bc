"""Published tables: keys and columns as Arrow arrays, and the files that they are written to.

Keys and types come from the plan, never from the data. `streaming` writes a table by batches of
cells, in a memory that does not grow with their number.
"""
