"""Keep the ledger: one SQLite file for many processes, with an append-only chain of entries."""
