"""Queries: aggregates with proven sensitivities, grouped by public or private keys."""
