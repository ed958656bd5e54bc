"""Values of one row as SQL: how they are written, compared and placed on a lattice."""
