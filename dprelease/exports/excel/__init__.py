"""Excel for reading, as the Analysis Function of the UK's government asks of statistics.

A cover, a list of contents, notes, and a sheet for each table: one table a sheet, from the first
column on, marked up as a table, without merged or hidden cells; a missing value is a shorthand.
"""
