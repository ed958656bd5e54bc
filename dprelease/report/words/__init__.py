"""The report's texts: one module per language, named by its language tag.

`SENTENCES`: every sentence by its name, as HTML with `{places}` for values; all languages use the
names of `en`. `DECIMAL` and `THOUSANDS`: the separators of numbers.
"""
