"""The report's texts: one module per language, named by its tag.

`SENTENCES`: every sentence by its name, HTML with `{places}` for values; the names are those of
`en`. `DECIMAL` and `THOUSANDS`: the separators of numbers.
"""
