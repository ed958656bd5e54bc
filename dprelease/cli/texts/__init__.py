"""Texts and tables of plans, checks and releases for a terminal."""
