"""The ledger: one SQLite file that many processes can use, with an append-only chain of entries."""
