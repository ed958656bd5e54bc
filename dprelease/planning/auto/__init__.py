"""Find the mechanism, and its shape, with the least expected error for a budget."""
