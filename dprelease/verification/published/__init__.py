"""Check that published cells are possible, and follow from each other where they do."""
