"""Forms: how a published column is computed from measurements, with its formula and its unit.

A file may define `BY_WORD`, like those of `query/aggregates`: the keywords of columns that are
computed from several measurements. `postprocess/derived_values.py` does the arithmetic of a form.
"""
