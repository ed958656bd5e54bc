"""Verify a release from its folder: bytes, digests, the whole manifest and the privacy cost.

Also verifies that the outcome of an audit is unchanged, and signed by a trusted signer.
"""

from __future__ import annotations

from pathlib import Path

from dprelease.documents.audits.audit_name import ENDING
from dprelease.documents.audits.audit_record import parsed_audit
from dprelease.documents.encoding import NAME, SIGNATURE, sha256_of
from dprelease.documents.listed_files import listed_files
from dprelease.documents.local_manifest import LocalManifest, LocalRehearsalManifest
from dprelease.documents.manifest import Manifest, RehearsalManifest
from dprelease.documents.party_manifest import FederatedManifest
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import LedgerError, State, VerificationError
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import count_text
from dprelease.signatures.signers import read_signers
from dprelease.signatures.sshsig import AUDITS
from dprelease.system.entries import entries
from dprelease.system.files import read_file, reason_of
from dprelease.system.json_text import MOST_BYTES
from dprelease.verification.manifest_reader import AnyManifest, Rehearsal, read_any
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
    """Return the report on a file with the outcome of an audit; no content of it raises an error.

    Checked: the bytes are unchanged, by the digest. With `signers`: the file next to it that ends
    in .sig has a signature of these bytes as an audit, by a key that may sign audits now. Failures
    that the audit found are reported, but are not findings: such an audit may be signed, too.

    Raises
    ------
    SignatureError
        DP-SIGN-007 or 008 for an invalid file of signers.
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
        told = count_text(len(audit.sensitivities), "measurement", "measurements")
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
"""Note on a release that names a ledger, when the ledger was not checked."""


def verify(
    path: str | Path,
    *,
    ledger: str | Path | None = None,
    signers: str | Path | None = None,
    rehearsal: bool = False,
    certify: bool = False,
) -> Report:
    """Return the report on a release folder; no content of the folder raises an error.

    The path of a manifest means its folder. Any other file is taken for the outcome of an audit,
    and checked by `verify_audit`.

    Checked: the bytes of the manifest are the canonical encoding of its content, with its digest;
    every file has its digest, and there are no other files. The manifest is rebuilt from its
    declaration and from the noise that it records, which the declaration must admit: all of it must
    be equal, except the versions of the tool, the comparison with other mechanisms, and entries
    that only the ledger knows. Rows, columns, types and keys of every table must follow from the
    declaration, and the declaration must not exclude any of the values of a single table. The
    events must cost what the guarantee states, and no more than the budget; their cost is computed
    a second time, by other code.

    With a ledger also: it contains the reservation that paid for the release, so it was not rolled
    back since; it was charged for exactly the noise that the manifest records; and it recorded the
    digest of the manifest, so that no table was exchanged since.

    Anybody who can write the folder and the ledger can forge both, but not a signature. `signers`
    is an allowed_signers file of OpenSSH: the manifest must be signed by a key that the file allows
    for manifests at this time. The entries of a ledger that has signers must be signed as well,
    each at its own time. Without `signers` but with such a ledger, the list of the ledger is used,
    at the time of the charge.

    A rehearsal is checked in the same way, but is never a release: this is DP-VERIFY-019, unless
    `rehearsal` is true. With `rehearsal`, a release is DP-VERIFY-020.

    `certify` proves upper bounds of the claims of the guarantee, in balls and whole numbers: the
    `certificate` of the report has the upper bound of each cost, its theorem and its assumptions. A
    claim below the proven cost is DP-VERIFY-024. A claim that is otherwise not proved, or not
    covered, is DP-VERIFY-026. So `ok` with a certificate means that all claims are proved; without
    a certificate, `ok` covers the items in `checked`. Certification takes some seconds.

    Raises
    ------
    SignatureError
        DP-SIGN-007 or 008 for an invalid file of signers.
    LedgerError
        DP-LEDGER-013 for a missing ledger.
    """
    check_paths(path, ledger, signers)
    if Path(path).is_file() and Path(path).name == NAME:
        path = Path(path).parent
    if Path(path).is_file():
        return verify_audit(Path(path), signers)
    if ledger is not None and not Path(ledger).exists():
        raise LedgerError("DP-LEDGER-013", name=Path(ledger).name)
    trusted = None if signers is None else TrustedSigners(read_signers(Path(signers)))
    report = Report(Path(path), certify=certify)
    try:
        record = read_any(report.path)
    except VerificationError as error:
        report.findings.append(error)
        return report
    report.sealed = record
    report.checked.append("the manifest is the canonical encoding with its own digest")
    report.rehearsal = isinstance(record, Rehearsal)
    if report.rehearsal != rehearsal:
        report.add_finding("DP-VERIFY-019" if report.rehearsal else "DP-VERIFY-020", "format")
    check_files(report, record)
    _check_audit(report, record)
    own = None if ledger is None else signers_of_ledger(Path(ledger), record)
    check_signature(report, record, trusted or own)
    _check_rest(report, record)
    if ledger is None and record.paid_by is not None:
        report.notes.append(UNPAID)
    if ledger is not None:
        _check_ledger(report, record, Path(ledger), trusted)
    return report


def check_files(report: Report, record: ReleaseManifest) -> None:
    """Compare digests; files are found by listing the folder, not by manifest names."""
    expected = listed_files(record.to_json())
    there = dict(entries(report.path, expected))
    for name, digest in expected.items():
        entry = there.get(name)
        is_file = entry is not None and entry.is_file(follow_symlinks=False)
        if entry is None or not is_file or _digest_of(Path(entry.path)) != digest:
            report.add_finding("DP-VERIFY-004", name=name)
    ours = {*expected, NAME}
    signature = there.get(SIGNATURE)
    if signature is not None and signature.is_file(follow_symlinks=False):
        ours.add(SIGNATURE)
    for name in sorted(there.keys() - ours):
        report.add_finding("DP-VERIFY-005", name=name)
    report.checked.append(
        count_text(len(expected), "file has its", "files have their")
        + " SHA-256, and there is no other"
    )


def _check_audit(report: Report, record: ReleaseManifest) -> None:
    """Check the audit that the manifest names, if any."""
    if record.declaration.audit is None:
        return
    problem = audit_problem(record, report.path)
    if problem:
        report.add_finding("DP-AUDIT-007", "declaration.audit", problem=problem)
    elif not report.findings:
        report.checked.append(audit_words(record, report.path))


def _digest_of(path: Path) -> str | None:
    try:
        return sha256_of(path)
    except OSError:
        return None


def _check_rest(report: Report, record: AnyManifest) -> None:
    """Rebuild the manifest of aggregates, of single records, or of the messages of one party."""
    if isinstance(record, LocalManifest):
        from dprelease.verification.local_release import check_local

        check_local(report, record)
    elif isinstance(record, FederatedManifest):
        from dprelease.verification.party_messages import check_federated

        check_federated(report, record)
    elif isinstance(record, LocalRehearsalManifest):
        from dprelease.verification.other_mode_rehearsals import check_rehearsed_records

        check_rehearsed_records(report, record)
    elif isinstance(record, Manifest):
        from dprelease.verification.central import check_central

        check_central(report, record)
    elif isinstance(record, RehearsalManifest):
        from dprelease.verification.rehearsal_checks import check_rehearsal

        check_rehearsal(report, record)
    else:
        from dprelease.verification.other_mode_rehearsals import check_rehearsed_parties

        check_rehearsed_parties(report, record)


def _check_ledger(
    report: Report, record: AnyManifest, path: Path, trusted: TrustedSigners | None
) -> None:
    from dprelease.verification.ledger_check import (
        UNSIGNED,
        check_payment,
        is_unsigned,
        vouched_for,
    )

    try:
        problem, words = check_payment(path, record)
        if trusted is not None and problem is None:
            problem = vouched_for(path, trusted.signers)
            report.notes += [UNSIGNED] * is_unsigned(path)
    except LedgerError as error:
        problem, words = error.cause, ""
    if problem is not None:
        report.add_finding("DP-VERIFY-010", name=path.name, problem=problem.rstrip("."))
    else:
        report.checked.append(words)
