"""Values of one row as SQL: how they are parsed, compared and rounded to steps."""
