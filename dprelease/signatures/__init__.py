"""Make and read SSH signatures with Ed25519 keys, and compare them with a list of signers."""
