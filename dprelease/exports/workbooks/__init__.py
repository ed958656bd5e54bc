"""Write workbooks for reading, by the guidance of the UK government's Analysis Function.

A workbook has a cover, a table of contents, notes, and one sheet per table. Tables start in the
first column, are marked up as tables, and have no merged or hidden cells; a missing value is a
shorthand.
"""
