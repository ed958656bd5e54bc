"""`dprelease sql` without a statement: a shell at a terminal, or statements from a file."""
