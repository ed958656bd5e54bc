"""The only place that touches sensitive rows."""
