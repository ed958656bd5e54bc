"""Write published tables into databases: DuckDB and SQLite files, and PostgreSQL servers."""
