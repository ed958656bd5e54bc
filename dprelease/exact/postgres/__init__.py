"""Read tables of PostgreSQL servers: in one snapshot for all tables of a run, column by column."""
