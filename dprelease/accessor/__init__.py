"""The pandas interface: `df.dp`, and sessions, whose queries share one budget."""
