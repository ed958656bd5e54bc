"""Check that the audit that a release names is complete, has no findings, and fits the release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dprelease.documents.audits.audit_record import Audit, digest_of_declaration, parse_audit
from dprelease.errors import DeclarationError
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file, reason_of
from dprelease.system.json_text import MOST_BYTES

OTHER = "the declaration has changed since"
PARTIAL = "covers only some of the queries"
BROKEN = "found a claim that does not hold"
UNFINISHED = "ended before everything was tested"


def with_audit(declaration: Declaration, path: str | Path | None) -> Declaration:
    """Return the declaration of a release with an audit file; unchanged if `path` is None.

    Raises DeclarationError: DP-AUDIT-003 if the file is not the result of an audit, 004 if it
    audited another declaration, 005 if the audit was incomplete or had findings.
    """
    if path is None:
        return declaration
    name = Path(path).name
    raw, audit = read_audit(Path(path))
    if audit.declaration != digest_of_declaration(declaration):
        raise DeclarationError("DP-AUDIT-004", name=name, problem=OTHER)
    problems = {BROKEN: not audit.holds, PARTIAL: not audit.whole, UNFINISHED: not audit.complete}
    for words, wrong in problems.items():
        if wrong:
            raise DeclarationError("DP-AUDIT-005", name=name, problem=words)
    return replace(declaration, audit=raw)


def read_audit(path: Path) -> tuple[bytes, Audit]:
    """Return the bytes of an audit file, and the outcome of the audit that they hold.

    Raises DeclarationError: DP-AUDIT-003 if the file is not the outcome of an audit.
    """
    problem = ""
    try:
        raw = read_file(path, MOST_BYTES)
        return raw, parse_audit(raw)
    except OSError as refused:
        problem = f"it can't be read ({reason_of(refused)})"
    except ValueError as refused:
        problem = str(refused)
    raise DeclarationError("DP-AUDIT-003", name=path.name, problem=problem)
