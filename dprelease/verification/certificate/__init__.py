"""Prove upper bounds of the privacy cost of a release: a certificate (`certify`)."""
