"""What is published of measurements: its parts, its formula in words, its unit.

A file may declare `BY_WORD`, as those of `query/aggregates` do: the words of columns that are made
of several measurements. The arithmetic of a form stands in `postprocess/derived_values.py`.
"""
