"""The only stage that touches sensitive rows."""
