"""Releases of several parties: each adds a share of the noise, and only the sum is published."""
