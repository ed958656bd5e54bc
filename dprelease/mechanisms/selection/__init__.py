"""Mechanisms that select one of several declared candidates, one mechanism in each file."""
