"""The report's own words: one module for each language, named by its tag.

`SENTENCES`: every sentence by its name, HTML with `{places}` for values; the names are those of
`en`. `DECIMAL` and `THOUSANDS`: the signs of numbers.
"""
