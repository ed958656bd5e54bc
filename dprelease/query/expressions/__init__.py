"""SQL expressions in declarations: an allow-list on the parsed tree admits functions of one row."""
