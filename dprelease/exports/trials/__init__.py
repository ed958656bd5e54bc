"""Formats before they are paid for: tried on blank tables, and their size from above."""
