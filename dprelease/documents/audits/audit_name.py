"""The name of an audit's file; a release without an audit loads no other module on audits."""

from __future__ import annotations

NAME = "audit.json"
"""Name of the outcome's file, in the folder of an audit and in that of a release that names one."""

ENDING = ".sig"
"""Suffix that the name of an outcome's signature adds to the name of the outcome's file."""
