"""Published tables: keys and columns as Arrow arrays, and the files that store them.

Keys and types come from the plan, never from the data. The tables are written in batches of cells,
so that memory does not grow with the number of cells.
"""
