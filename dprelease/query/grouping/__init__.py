"""Keys that rows are grouped by: public, private, or of tables that agree."""
