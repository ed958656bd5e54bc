"""Code that runs on executors: a worker's DuckDB reads, types, bounds and counts rows."""
