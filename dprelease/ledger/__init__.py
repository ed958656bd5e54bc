"""Budgets that last: one SQLite file, many processes, an append-only chain of entries."""
