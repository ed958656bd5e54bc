"""Arithmetic that knows nothing about privacy: rounding, entropy, exact lattice sampling."""
