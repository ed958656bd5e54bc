"""Queries: aggregates with proven limits over public or private keys."""
