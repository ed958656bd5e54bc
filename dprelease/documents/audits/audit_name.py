"""The name of an audit's file; a release without an audit loads no other module on audits."""

NAME = "audit.json"
"""Name of the outcome's file in the folder of an audit, or of a release that names an audit."""

ENDING = ".sig"
"""Suffix that the name of an outcome's signature adds to the name of the outcome's file."""
