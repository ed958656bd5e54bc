"""Accuracy of published numbers: expected and true errors, totals that disagree."""
