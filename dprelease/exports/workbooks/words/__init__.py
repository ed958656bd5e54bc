"""The fixed texts of workbooks: one module per language, named by its language tag.

`WORDS`: every text by its name, with `{places}` for values; all languages have the names of `en`.
`DECIMAL`: the decimal sign in texts. Cells have number formats, which Excel localizes.
"""
