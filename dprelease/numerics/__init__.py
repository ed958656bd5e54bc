"""Arithmetic independent of privacy: rounding, entropy, exact sampling on the integers."""
