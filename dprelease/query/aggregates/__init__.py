"""Aggregates: one file for each, which defines everything that other stages need to know.

A file defines `BY_WORD`: the keywords of columns, and the aggregate that each becomes.
"""
