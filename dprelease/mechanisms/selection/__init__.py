"""Mechanisms that choose one of several declared candidates; one file each."""
