"""Checks a release from its folder alone: bytes, digests, the whole manifest and the price.

Whether the outcome of an audit is as it was written, and signed by one of those who may.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.audits.audit_name import ENDING
from dprelease.documents.audits.audit_record import parsed_audit
from dprelease.documents.listed_files import listed_files
from dprelease.documents.local_manifest import FORMAT as LOCAL
from dprelease.documents.party_manifest import FORMAT as FEDERATED
from dprelease.documents.rehearsal_manifest import FORMATS as REHEARSALS
from dprelease.documents.rehearsal_manifest import OF_PARTIES, OF_RECORDS
from dprelease.errors import LedgerError, State, VerificationError
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import amount
from dprelease.signatures.signers import read_signers
from dprelease.signatures.sshsig import AUDITS
from dprelease.system.entries import entries
from dprelease.system.files import read_file, reason_of
from dprelease.system.json_text import MOST_BYTES
from dprelease.verification.manifest_reader import read_sealed
from dprelease.verification.report import Report
from dprelease.verification.signed.named_audits import audit_problem, audit_words
from dprelease.verification.signed.signature_checks import (
    SignedFile,
    TrustedSigners,
    check_signature,
    check_signed,
    signers_of_ledger,
)


def verify_audit(path: Path, signers: str | Path | None = None) -> Report:
    """Return the report on the outcome of an audit, by its file; it never raises for what is in it.

    Checked: its bytes are those that were written, with its digest. With `signers`: the signature
    in the file beside it, which ends in .sig, is one of these bytes as an audit, by a key that may
    sign audits now. What the audit found is told, and no finding: such an audit may be signed, too.

    Raises
    ------
    SignatureError
        DP-SIGN-007 or 008 for a file of signers that is none.
    """
    trusted = None if signers is None else TrustedSigners(read_signers(Path(signers)))
    report = Report(path.parent, name=path.name, what="audit", state=State.NOTHING)
    raw, problem = b"", ""
    try:
        raw = read_file(path, MOST_BYTES)
        audit = parsed_audit(raw)
    except OSError as refused:
        problem = f"it can't be read ({reason_of(refused)})"
    except ValueError as refused:
        problem = str(refused)
    if problem:
        report.add_finding("DP-AUDIT-009", name=path.name, problem=problem)
    else:
        told = amount(len(audit.sensitivities), "measurement", "measurements")
        held = "all held" if audit.holds else "not all held"
        whole = "" if audit.complete else ", and not everything was tested"
        report.checked.append(
            f"the outcome of an audit by dprelease {audit.version} is the canonical encoding with "
            f"its own digest: of {told} {held}{whole}"
        )
    check_signed(
        report, SignedFile(path.name + ENDING, AUDITS, "outcome of an audit", raw), trusted
    )
    return report


UNPAID = (
    "no ledger was checked: that the release was charged, in which entry, and how the budget "
    "renews, are statements of the manifest"
)
"""What is told of a release that says which ledger paid for it, where nobody asked the ledger."""


def verify(
    path: str | Path,
    *,
    ledger: str | Path | None = None,
    signers: str | Path | None = None,
    rehearsal: bool = False,
    certify: bool = False,
) -> Report:
    """Return the report on a release folder; it never raises for what is in the folder.

    A manifest stands for its folder. Any other file is taken for the outcome of an audit, and
    checked as `verify_audit` does.

    Checked: the manifest's bytes are the canonical encoding of what it says, with its digest; every
    file has its digest, and no other file is there. The manifest is made again from its declaration
    and from the laws of the noise that it records, which are ones that the declaration admits: all
    of it has to be the same, but for the versions of the tool, what other mechanisms would have
    cost, and what only the ledger knows. Rows, columns, types and keys of every table follow from
    the declaration, which rules out none of the values of a single table. The events cost what the
    guarantee says, and no more than the budget; and they are priced a second time, by other code.

    With a ledger also: it holds the reservation that paid for the release, so it was not rolled
    back since; it was charged for the very noise that the manifest records; and the digest of the
    manifest is the one that it wrote down, so that no table was exchanged since.

    Whoever can write the folder and the ledger can forge both, but no signature. With `signers`, a
    file of OpenSSH's allowed_signers: the manifest is signed by a key that it names for manifests,
    and at this time, and so are the entries of a ledger that has signers, each at its own. Without
    `signers` but with such a ledger, its own list is asked, at the time of the charge.

    A rehearsal is checked in the same way, and is never a release: DP-VERIFY-019 says so, unless it
    is as a `rehearsal` that the folder is to be verified. Then a release is none (DP-VERIFY-020).

    To `certify` is to prove the claims of its guarantee from above, in balls and whole numbers: the
    report's `certificate` tells at most what each costs, by which theorem, and what that rests on.
    A claim below what is proved is DP-VERIFY-024, and one that is not proved otherwise, or not
    looked at, DP-VERIFY-026: so `ok` with a certificate says that all is proved. Without it, `ok`
    says what `checked` lists. It takes some seconds.

    Raises
    ------
    SignatureError
        DP-SIGN-007 or 008 for a file of signers that is none.
    LedgerError
        DP-LEDGER-013 for a ledger that is not there.
    """
    check_paths(path, ledger, signers)
    if Path(path).is_file() and Path(path).name == manifest.NAME:
        path = Path(path).parent
    if Path(path).is_file():
        return verify_audit(Path(path), signers)
    if ledger is not None and not Path(ledger).exists():
        raise LedgerError("DP-LEDGER-013", name=Path(ledger).name)
    trusted = None if signers is None else TrustedSigners(read_signers(Path(signers)))
    report = Report(Path(path), certify=certify)
    try:
        record = read_sealed(report.path)
    except VerificationError as error:
        report.findings.append(error)
        return report
    report.sealed = record
    report.checked.append("the manifest is the canonical encoding with its own digest")
    report.rehearsal = record["format"] in REHEARSALS
    if report.rehearsal != rehearsal:
        report.add_finding("DP-VERIFY-019" if report.rehearsal else "DP-VERIFY-020", "format")
    check_files(report, record)
    _check_audit(report, record)
    own = None if ledger is None else signers_of_ledger(Path(ledger), record)
    check_signature(report, record, trusted or own)
    _check_rest(report, record)
    if ledger is None and record.get("ledger") is not None:
        report.notes.append(UNPAID)
    if ledger is not None:
        _check_ledger(report, record, Path(ledger), trusted)
    return report


def check_files(report: Report, record: dict[str, Any]) -> None:
    """Compare digests; names of the manifest are looked for in the folder, and never opened."""
    expected = listed_files(record)
    there = dict(entries(report.path, expected))
    for name, digest in expected.items():
        entry = there.get(name)
        is_file = entry is not None and entry.is_file(follow_symlinks=False)
        if entry is None or not is_file or _digest_of(Path(entry.path)) != digest:
            report.add_finding("DP-VERIFY-004", name=name)
    ours = {*expected, manifest.NAME}
    signature = there.get(manifest.SIGNATURE)
    if signature is not None and signature.is_file(follow_symlinks=False):
        ours.add(manifest.SIGNATURE)
    for name in sorted(there.keys() - ours):
        report.add_finding("DP-VERIFY-005", name=name)
    report.checked.append(
        amount(len(expected), "file has its", "files have their")
        + " SHA-256, and there is no other"
    )


def _check_audit(report: Report, record: dict[str, Any]) -> None:
    """Look at the audit that the manifest names, if it names one."""
    if record["declaration"].get("audit") is None:
        return
    problem = audit_problem(record, report.path)
    if problem:
        report.add_finding("DP-AUDIT-007", "declaration.audit", problem=problem)
    elif not report.findings:
        report.checked.append(audit_words(record, report.path))


def _digest_of(path: Path) -> str | None:
    try:
        return manifest.sha256_of(path)
    except OSError:
        return None


def _check_rest(report: Report, record: dict[str, Any]) -> None:
    """Make the manifest again: of aggregates, of single records, or of one party's messages."""
    if record["format"] == LOCAL:
        from dprelease.verification.local_release import check_local

        check_local(report, record)
    elif record["format"] == FEDERATED:
        from dprelease.verification.party_messages import check_federated

        check_federated(report, record)
    elif record["format"] == OF_RECORDS:
        from dprelease.verification.other_mode_rehearsals import check_rehearsed_records

        check_rehearsed_records(report, record)
    elif record["format"] == OF_PARTIES:
        from dprelease.verification.other_mode_rehearsals import check_rehearsed_parties

        check_rehearsed_parties(report, record)
    elif report.rehearsal:
        from dprelease.verification.rehearsal_checks import check_rehearsal

        check_rehearsal(report, record)
    else:
        from dprelease.verification.central import check_central

        check_central(report, record)


def _check_ledger(
    report: Report, record: dict[str, Any], path: Path, trusted: TrustedSigners | None
) -> None:
    from dprelease.verification.ledger_check import UNSIGNED, is_unsigned, paid_for, vouched_for

    try:
        problem, words = paid_for(path, record)
        if trusted is not None and problem is None:
            problem = vouched_for(path, trusted.signers)
            report.notes += [UNSIGNED] * is_unsigned(path)
    except LedgerError as error:
        problem, words = error.cause, ""
    if problem is not None:
        report.add_finding("DP-VERIFY-010", name=path.name, problem=problem.rstrip("."))
    else:
        report.checked.append(words)
