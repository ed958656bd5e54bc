"""Outcomes of audits."""
