"""The Spark engine: rows are spread by Spark, and read and counted by DuckDB where they are."""
