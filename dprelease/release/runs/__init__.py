"""Run a declared release, and write its tables."""
