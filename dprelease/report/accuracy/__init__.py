"""Accuracy of published numbers: expected errors, true errors, and inconsistent totals."""
