"""Detect how files are written and what their columns hold: proposals of `init`, for its user."""
