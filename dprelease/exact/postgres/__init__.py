"""Tables of PostgreSQL servers: one snapshot for all tables of a run, read column by column."""
