"""Which mechanism, and which shape of it, has the least expected error for a budget."""
