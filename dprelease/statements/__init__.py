"""Write the SQL of aggregates with contribution limits; no module here opens a database."""
