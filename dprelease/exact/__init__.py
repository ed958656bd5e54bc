"""Read the rows about people and compute true results: no other stage reads these rows."""
