"""Lasting budgets: one SQLite file, many processes, and an append-only chain of entries."""
