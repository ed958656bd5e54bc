"""What runs on executors: rows read, typed, bounded and counted by a DuckDB of the worker."""
