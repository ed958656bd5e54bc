"""Verify a release from its folder: bytes, digests, manifest, signatures and the privacy cost.

This module also verifies that the outcome of an audit is unchanged, and signed by a trusted signer.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dprelease.documents.audit_record import parse_audit
from dprelease.documents.encoding import ENDING, NAME, SIGNATURE, canonical, sha256_if_readable
from dprelease.documents.file_records import listed_files
from dprelease.documents.local_manifest import LocalManifest, LocalRehearsalManifest
from dprelease.documents.manifest import Manifest, RehearsalManifest
from dprelease.documents.party_manifest import FederatedManifest
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import LedgerError, SignatureError, State, VerificationError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import count_text
from dprelease.signatures.signers import Signers, read_signers
from dprelease.signatures.sshsig import (
    AUDITS,
    MANIFESTS,
    MOST_SIGNATURE_BYTES,
    Signature,
    fingerprint,
)
from dprelease.system.files import entries, read_file, reason_of
from dprelease.system.json_text import MOST_BYTES
from dprelease.verification.manifest_comparison import AnyManifest, Rehearsal, read_any_manifest
from dprelease.verification.report import Report, audit_problem, audit_text, declares_choices


def verify_audit(path: Path, signers: str | Path | None = None) -> Report:
    """Return the report on a file with the outcome of an audit; no content of it raises an error.

    The digest must show that the bytes are unchanged. With `signers`, the file with the additional
    ending .sig must have a signature of these bytes as an audit, by a key that may sign audits now.
    Failures that the audit found are reported, but are not findings, because such an audit may be
    signed, too.

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
        audit = parse_audit(raw)
    except OSError as refused:
        problem = f"it can't be read ({reason_of(refused)})"
    except ValueError as refused:
        problem = str(refused)
    if problem:
        report.add_finding("DP-AUDIT-009", name=path.name, problem=problem)
    else:
        measured = count_text(len(audit.sensitivities), "measurement", "measurements")
        held = "all held" if audit.holds else "not all held"
        whole = "" if audit.complete else ", and not everything was tested"
        report.checked.append(
            f"the outcome of an audit by dprelease {audit.version} is the canonical encoding with "
            f"its own digest: of {measured} {held}{whole}"
        )
    check_signed_file(
        report, SignedFile(path.name + ENDING, AUDITS, "outcome of an audit", raw), trusted
    )
    return report


UNPAID = (
    "no ledger was checked: that the release was charged, in which entry, and how the budget "
    "renews, are statements of the manifest"
)
"""Note on a release that names a ledger, when the ledger was not checked."""


@checked_arguments
def verify(
    path: str | Path,
    *,
    ledger: str | Path | None = None,
    signers: str | Path | None = None,
    rehearsal: bool = False,
    certify: bool = False,
) -> Report:
    """Return the report on a release folder; no content of the folder raises an error.

    For the path of a manifest, its folder is verified. Any other file is read as the outcome of an
    audit, and checked by `verify_audit`.

    The bytes of the manifest must be the canonical encoding of its content, with its digest. Every
    file must have its recorded digest, and there must be no other files. The manifest is rebuilt
    from its declaration and from the noise that it records, which the declaration must allow: the
    rebuilt manifest must be equal, except for the versions of the tool, the comparison with other
    mechanisms, and entries that only the ledger knows. Rows, columns, types and keys of every table
    must follow from the declaration, and every value of a table must be possible under the
    declaration. The events must cost what the guarantee states, and no more than the budget. Their
    cost is computed a second time, by other code.

    With a ledger, the ledger must contain the reservation of the release (otherwise it was rolled
    back since), with exactly the noise that the manifest records, and the digest of the manifest
    (otherwise a table was replaced since).

    Anybody who can write the folder and the ledger can forge both, but not a signature. `signers`
    is an allowed_signers file of OpenSSH: the manifest must be signed by a key that the file allows
    for manifests at this time. If the ledger has signers, its entries must also be signed by these
    keys, each valid at the time of the entry. Without `signers` but with such a ledger, the
    manifest must be signed by a key in the ledger's list that was valid at the time of the charge.

    A rehearsal is checked in the same way, but gets the finding DP-VERIFY-019 unless `rehearsal` is
    true, because it is not a release. With `rehearsal`, a release gets the finding DP-VERIFY-020.

    With `certify`, upper bounds of the claimed costs are proved in ball arithmetic and whole
    numbers: the `certificate` of the report has the upper bound of each cost, its theorem and its
    assumptions. A claim below the proven cost gets the finding DP-VERIFY-024. A claim that is not
    proved for another reason, or not covered, gets DP-VERIFY-026. So `ok` with a certificate means
    that all claims are proved; without a certificate, `ok` covers the items in `checked`.
    Certification takes some seconds.

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
        record = read_any_manifest(report.path)
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
    _check_kind(report, record)
    if isinstance(record, Manifest):
        _check_limits(report, record, ledger, signers)
    if ledger is None and record.ledger_entry is not None:
        report.notes.append(UNPAID)
    if ledger is not None:
        _check_ledger(report, record, Path(ledger), trusted)
    return report


def check_files(report: Report, record: ReleaseManifest) -> None:
    """Compare the digests of all files in the folder, found by listing it, with the manifest."""
    expected = listed_files(record.to_json())
    there = dict(entries(report.path, expected))
    for name, digest in expected.items():
        # A link could lead to a file outside of the folder, which is not part of the release.
        entry = there.get(name)
        is_file = entry is not None and entry.is_file(follow_symlinks=False)
        if entry is None or not is_file or sha256_if_readable(Path(entry.path)) != digest:
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
        report.checked.append(audit_text(record, report.path))


def _check_limits(
    report: Report, record: Manifest, ledger: str | Path | None, signers: str | Path | None
) -> None:
    """Verify the release of limits that a release contains, and that it chose the limits for it.

    The manifest of the release has been compared with one that is rebuilt from this release. So
    its limits are the published ones, and its guarantee is the sum of both.
    """
    if record.declaration.chooses is not None:
        return
    if record.limits is None:
        if declares_choices(record, report.path):
            problem = "it records none, although the declaration chooses some privately"
            report.add_finding("DP-VERIFY-027", "limits", problem=problem)
        return
    if report.findings:  # also stops at folders that contain themselves by a link
        return
    folder = report.path / record.limits.folder
    limits = verify(folder, ledger=ledger, signers=signers, certify=report.certify)
    problem = ""
    if limits.findings:
        problem = f"their own verification finds {limits.findings[0].code}"
    elif limits.sealed is None or limits.sealed.declaration.chooses != "limits":
        problem = "the folder contains no release of limits"
    if problem:
        report.add_finding("DP-VERIFY-027", "limits", problem=problem)
        return
    report.checked.append(
        "the contribution limits were chosen privately by the release in "
        f"'{record.limits.folder}', which was verified in the same way; both guarantees add up"
    )


def _check_kind(report: Report, record: AnyManifest) -> None:
    """Run the checks for the kind of the release: aggregates, single records, or messages."""
    # Each kind has imports of its own, so that only those of the checked kind are loaded.
    if isinstance(record, LocalManifest):
        from dprelease.verification.local_release import check_local

        check_local(report, record)
    elif isinstance(record, FederatedManifest):
        from dprelease.verification.party_messages import check_federated

        check_federated(report, record)
    elif isinstance(record, LocalRehearsalManifest):
        from dprelease.verification.rehearsal_checks import check_rehearsed_records

        check_rehearsed_records(report, record)
    elif isinstance(record, Manifest):
        from dprelease.verification.central import check_central

        check_central(report, record)
    elif isinstance(record, RehearsalManifest):
        from dprelease.verification.rehearsal_checks import check_rehearsal

        check_rehearsal(report, record)
    else:
        from dprelease.verification.rehearsal_checks import check_rehearsed_parties

        check_rehearsed_parties(report, record)


def _check_ledger(
    report: Report, record: AnyManifest, path: Path, trusted: TrustedSigners | None
) -> None:
    """Add findings on the charge in a ledger, and on the signatures of its entries."""
    from dprelease.verification.ledger_check import (
        UNSIGNED,
        check_charge,
        is_unsigned,
        signers_problem,
    )

    try:
        problem, words = check_charge(path, record)
        if trusted is not None and problem is None:
            problem = signers_problem(path, trusted.signers)
            report.notes += [UNSIGNED] * is_unsigned(path)
    except LedgerError as error:
        problem, words = error.cause, ""
    if problem is not None:
        report.add_finding("DP-VERIFY-010", name=path.name, problem=problem.rstrip("."))
    else:
        report.checked.append(words)


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
    # A link could lead out of the folder, whose bytes are what is verified.
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
    from dprelease.ledger.entries import RESERVE, SIGNERS, signers_of_entry
    from dprelease.ledger.ledger import Ledger
    from dprelease.ledger.periods import parse_utc_time

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
        return Signature.from_armor(read_file(path, MOST_SIGNATURE_BYTES))
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
    # A signature of another kind of file vouches for other content, with the same key.
    if signature.namespace != signed.namespace:
        # A forged signature may have a namespace of any length.
        other = signature.namespace[:60]
        problem = f"it was made for the namespace {other}, not {signed.namespace}"
        report.add_finding("DP-VERIFY-018", by=key, problem=problem)
        return
    if not signature.holds(signed.message):
        report.add_finding("DP-VERIFY-016", by=key, what=report.what, signed=signed.what)
        return
    # By default a key must be valid now: a time in the release would be its signer's choice.
    at = trusted.at or datetime.now(UTC)
    verdict = trusted.signers.judge(signature.public, signed.namespace, at)
    if not verdict.known:
        report.add_finding("DP-VERIFY-017", by=key, what=report.what)
    elif not verdict.is_accepted:
        report.add_finding("DP-VERIFY-018", by=key, problem=verdict.refusal)
    else:
        report.signature = {"key": key, "principals": verdict.principals}
        report.checked.append(f"the {signed.what} is signed by {verdict.principals} ({key})")
