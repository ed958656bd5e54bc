"""The Spark engine: Spark distributes rows, and a DuckDB in each worker reads and counts them."""
