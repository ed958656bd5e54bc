"""SSH signatures by Ed25519 keys: made, read, and judged by a list of who may sign what."""
