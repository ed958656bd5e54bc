"""What the outcome of an audit is called; a release that names none loads no more of it."""

from __future__ import annotations

import hashlib

from dprelease.schema.load import Declaration

NAME = "audit.json"
"""Of the outcome, in the folder of an audit and in that of a release that names one."""

ENDING = ".sig"
"""What follows the name of an outcome's file in that of its signature."""


def named_record(declaration: Declaration) -> dict[str, dict[str, str]]:
    """Return what a manifest says of the audit that a release names; nothing without one."""
    if declaration.audit is None:
        return {}
    return {"audit": {"file": NAME, "sha256": hashlib.sha256(declaration.audit).hexdigest()}}
