"""Signatures of releases and of audits, and audits that a release names."""
