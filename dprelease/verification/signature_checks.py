"""Whether a release is signed, by a key that may sign it: what digests can't tell a stranger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dprelease.documents.manifest import SIGNATURE, canonical
from dprelease.errors import LedgerError, SignatureError
from dprelease.signatures.signers import Signers
from dprelease.signatures.sshsig import MANIFESTS, MOST_BYTES, Signature, fingerprint
from dprelease.system.files import read_file
from dprelease.verification.report import Report

UNCHECKED = f"{SIGNATURE} is there and was not checked: name who may sign with --signers"


@dataclass(frozen=True, slots=True)
class Trusted:
    """Who may sign releases, and at which time that is asked; now, unless something tells it."""

    signers: Signers
    at: datetime | None = None


def check_signature(report: Report, record: dict[str, Any], trusted: Trusted | None) -> None:
    """Add to a report whether the manifest is signed by one of those who may.

    Without `trusted` it says no more than that a signature is there.
    """
    path = report.path / SIGNATURE
    is_there = path.is_file() and not path.is_symlink()
    if trusted is None:
        report.notes += [UNCHECKED] * is_there
        return
    if not is_there:
        report.found("DP-VERIFY-014", name=SIGNATURE)
        return
    signature = _read(report, path)
    if signature is not None:
        _judge(report, signature, canonical(record), trusted)


def signers_of_ledger(path: Path, record: dict[str, Any]) -> Trusted | None:
    """Return who could sign by a ledger's own list as it was charged; None if nobody had to.

    What is wrong with the ledger is for others to tell.
    """
    from dprelease.ledger.ledger import Ledger
    from dprelease.ledger.periods import moment_of
    from dprelease.ledger.signed_entries import listed
    from dprelease.ledger.steps import RESERVE, SIGNERS

    name = (record.get("ledger") or {}).get("reservation")
    signers = None
    with suppress(LedgerError, SignatureError, ValueError):
        for entry in Ledger(path).history():
            if entry.kind == SIGNERS:
                signers = listed(entry)
            elif entry.kind == RESERVE and entry.body["id"] == name and signers is not None:
                return Trusted(signers, moment_of(str(entry.body["time"])))
    return None


def _read(report: Report, path: Path) -> Signature | None:
    problem = ""
    try:
        return Signature.parsed(read_file(path, MOST_BYTES))
    except OSError as refused:
        problem = (refused.strerror or "the system refused").lower()
    except ValueError as refused:
        problem = str(refused)
    report.found("DP-VERIFY-015", problem=problem)
    return None


def _judge(report: Report, signature: Signature, manifest: bytes, trusted: Trusted) -> None:
    key = fingerprint(signature.public)
    if signature.namespace != MANIFESTS:
        problem = f"it was made for the namespace {signature.namespace[:60]}, not {MANIFESTS}"
        report.found("DP-VERIFY-018", by=key, problem=problem)
        return
    if not signature.holds(manifest):
        report.found("DP-VERIFY-016", by=key)
        return
    verdict = trusted.signers.judge(signature.public, MANIFESTS, trusted.at or datetime.now(UTC))
    if not verdict.known:
        report.found("DP-VERIFY-017", by=key)
    elif not verdict.allowed:
        report.found("DP-VERIFY-018", by=key, problem=verdict.refusal)
    else:
        report.signature = {"key": key, "principals": verdict.principals}
        report.checked.append(f"the manifest is signed by {verdict.principals} ({key})")
