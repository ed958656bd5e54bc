"""pandas entry: `df.dp`, and the session whose budget its answers share."""
