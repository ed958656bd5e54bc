"""Mechanisms that select one of several declared candidates; one file each."""
