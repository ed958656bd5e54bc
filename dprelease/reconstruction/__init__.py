"""Simulate reconstruction attacks on published tables about people whose records are known.

The attack runs only on rehearsals, whose people are synthetic or public, and refuses every other
folder. The solver sees published numbers only; the truth is read after the answer is fixed.
"""
