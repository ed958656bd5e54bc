"""Check that the audit named by a release is in its folder, fits its declaration, and passed."""

from __future__ import annotations

from pathlib import Path

from dprelease.documents.audits.audit_name import NAME
from dprelease.documents.audits.audit_record import (
    Audit,
    digest_of_recorded_declaration,
    parse_audit,
)
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors.printable import count_text
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES


def audit_bytes(record: ReleaseManifest, folder: Path) -> bytes | None:
    """Return the bytes of the audit that a manifest names; None if there is no such file."""
    if record.declaration.audit is None:
        return None
    try:
        return read_file(folder / NAME, MOST_BYTES)
    except OSError:
        return None


def named_audit(record: ReleaseManifest, folder: Path) -> Audit | None:
    """Return the audit that a verified release names; None if it names no audit."""
    raw = audit_bytes(record, folder)
    return None if raw is None else parse_audit(raw)


def audit_problem(record: ReleaseManifest, folder: Path) -> str:
    """Return why the audit that a manifest names is not valid evidence; empty if it is.

    The digest of its file is checked together with the digests of all files.
    """
    raw = audit_bytes(record, folder)
    if raw is None:
        return ""  # the missing file is reported already
    try:
        audit = parse_audit(raw)
    except ValueError as problem:
        return str(problem)
    if audit.declaration != digest_of_recorded_declaration(record.declaration):
        return "it is about another declaration"
    if not (audit.holds and audit.whole and audit.complete):
        return "it was incomplete, or found a claim that does not hold"
    return ""


def audit_text(record: ReleaseManifest, folder: Path) -> str:
    """Return a text on the comparisons of the named audit."""
    audit = parse_audit(audit_bytes(record, folder) or b"")
    pairs = sum(one.pairs for one in audit.sensitivities)
    told = count_text(len(audit.sensitivities), "measurement", "measurements")
    return (
        f"it names an audit of this declaration by dprelease {audit.version}, in which all held: "
        f"{told} on {count_text(pairs, 'pair', 'pairs')} of neighbours"
    )
