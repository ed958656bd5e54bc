"""Make and read SSH signatures with Ed25519 keys, and check them against a list of signers."""
