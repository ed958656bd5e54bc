"""What plans, checks and releases look like on a terminal."""
