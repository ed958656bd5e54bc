"""Check that a release is signed by a key that may sign it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dprelease.documents.encoding import SIGNATURE, canonical
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import LedgerError, SignatureError
from dprelease.signatures.signers import Signers
from dprelease.signatures.sshsig import MANIFESTS, MOST_BYTES, Signature, fingerprint
from dprelease.system.files import read_file, reason_of
from dprelease.verification.report import Report

UNCHECKED = "{name} exists and was not checked: name the list of signers with --signers"


@dataclass(frozen=True, slots=True)
class TrustedSigners:
    """The allowed signers of releases, and the time for which they are checked (by default now)."""

    signers: Signers
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SignedFile:
    """A signed file: its signature's file name and namespace, its description, and its bytes."""

    name: str
    namespace: str
    what: str
    message: bytes


def check_signature(
    report: Report, record: ReleaseManifest, trusted: TrustedSigners | None
) -> None:
    """Record in a report whether an allowed signer signed the manifest."""
    signed = SignedFile(SIGNATURE, MANIFESTS, "manifest", canonical(record.to_json()))
    check_signed_file(report, signed, trusted)


def check_signed_file(report: Report, signed: SignedFile, trusted: TrustedSigners | None) -> None:
    """Record in a report whether an allowed signer signed a file.

    Without `trusted` signers, the report only gets a note that there is a signature.
    """
    path = report.path / signed.name
    is_there = path.is_file() and not path.is_symlink()
    if trusted is None:
        report.notes += [UNCHECKED.format(name=signed.name)] * is_there
        return
    if not is_there:
        report.add_finding("DP-VERIFY-014", what=report.what, name=signed.name)
        return
    signature = _read_signature(report, path)
    if signature is not None:
        _add_verdict(report, signature, signed, trusted)


def signers_of_ledger(path: Path, record: ReleaseManifest) -> TrustedSigners | None:
    """Return a ledger's list of signers, with the time of the charge; None without signers.

    Problems with the ledger are reported by other checks.
    """
    from dprelease.ledger.chain import RESERVE, SIGNERS
    from dprelease.ledger.ledger import Ledger
    from dprelease.ledger.periods import parse_utc_time
    from dprelease.ledger.signed_entries import signers_of_entry

    name = None if record.ledger_entry is None else record.ledger_entry.reservation
    signers = None
    with suppress(LedgerError, SignatureError, ValueError):
        for entry in Ledger(path).history():
            if entry.kind == SIGNERS:
                signers = signers_of_entry(entry)
            elif entry.kind == RESERVE and entry.body["id"] == name and signers is not None:
                return TrustedSigners(signers, parse_utc_time(str(entry.body["time"])))
    return None


def _read_signature(report: Report, path: Path) -> Signature | None:
    """Return a signature; None, and a finding, if it can't be read."""
    problem = ""
    try:
        return Signature.from_armor(read_file(path, MOST_BYTES))
    except OSError as refused:
        problem = reason_of(refused)
    except ValueError as refused:
        problem = str(refused)
    report.add_finding("DP-VERIFY-015", what=report.what, problem=problem)
    return None


def _add_verdict(
    report: Report, signature: Signature, signed: SignedFile, trusted: TrustedSigners
) -> None:
    """Record in a report whether a signature is valid, and by an allowed signer."""
    key = fingerprint(signature.public)
    if signature.namespace != signed.namespace:
        other = signature.namespace[:60]
        problem = f"it was made for the namespace {other}, not {signed.namespace}"
        report.add_finding("DP-VERIFY-018", by=key, problem=problem)
        return
    if not signature.holds(signed.message):
        report.add_finding("DP-VERIFY-016", by=key, what=report.what, signed=signed.what)
        return
    at = trusted.at or datetime.now(UTC)
    verdict = trusted.signers.judge(signature.public, signed.namespace, at)
    if not verdict.known:
        report.add_finding("DP-VERIFY-017", by=key, what=report.what)
    elif not verdict.is_accepted:
        report.add_finding("DP-VERIFY-018", by=key, problem=verdict.refusal)
    else:
        report.signature = {"key": key, "principals": verdict.principals}
        report.checked.append(f"the {signed.what} is signed by {verdict.principals} ({key})")
