"""Strict YAML parsing and syntax errors."""
