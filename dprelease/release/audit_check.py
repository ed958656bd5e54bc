"""The audit that a release names: of this very declaration, whole, and without a finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dprelease.documents.audits.audit_record import Audit, digest_of_declaration, parsed_audit
from dprelease.errors import DeclarationError
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file, reason_of
from dprelease.system.json_text import MOST_BYTES

OTHER = "what was declared then is not what is declared now"
PARTIAL = "is of some of the queries alone"
BROKEN = "found what does not hold"
UNFINISHED = "ended before all was tried"


def audited_by(declaration: Declaration, path: str | Path | None) -> Declaration:
    """Return a declaration whose release names an audit, by its file; the same without one.

    Raises
    ------
    DeclarationError
        DP-AUDIT-003 for what is no outcome of an audit, 004 for that of another declaration, 005
        for one that was not whole or found something.
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
    """Return the outcome of an audit, and the bytes of its file, which are those that were written.

    Raises
    ------
    DeclarationError
        DP-AUDIT-003 for anything else.
    """
    problem = ""
    try:
        raw = read_file(path, MOST_BYTES)
        return raw, parsed_audit(raw)
    except OSError as refused:
        problem = f"it can't be read ({reason_of(refused)})"
    except ValueError as refused:
        problem = str(refused)
    raise DeclarationError("DP-AUDIT-003", name=path.name, problem=problem)
