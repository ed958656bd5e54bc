"""The ledger: arithmetic, tampering, races and crashes."""
