"""Simulate reconstruction attacks on published tables about people whose records are known.

The attack runs only on rehearsals, whose people are synthetic or public, and refuses every other
folder. The solver uses only published numbers. The true records serve only to make other protected
forms of the tables, and to score the solution after it is fixed.
"""
