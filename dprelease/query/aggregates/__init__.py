"""Aggregates: one file for each, which defines everything that other stages need to know of it.

A file defines `BY_WORD`: the keywords of columns, and the aggregate that each becomes.
"""
