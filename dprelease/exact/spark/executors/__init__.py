"""Code that runs on executors, where DuckDB reads, types, bounds and counts rows in each worker."""
