"""SQL text of bounded aggregates; opens no database."""
