"""Releases of the local model: single records with noise, and what can be estimated from them."""
