"""Make, read and judge SSH signatures by Ed25519 keys, by a list of allowed signers."""
