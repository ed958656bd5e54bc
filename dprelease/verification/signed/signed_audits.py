"""Whether the outcome of an audit is as it was written, and signed by one of those who may."""

from __future__ import annotations

from pathlib import Path

from dprelease.documents.audits.audit_name import ENDING
from dprelease.documents.audits.audit_record import parsed_audit
from dprelease.errors import State
from dprelease.errors.printable import amount
from dprelease.signatures.signers import read_signers
from dprelease.signatures.sshsig import AUDITS
from dprelease.system.files import read_file, reason_of
from dprelease.system.json_text import MOST_BYTES
from dprelease.verification.report import Report
from dprelease.verification.signed.signature_checks import Signed, Trusted, check_signed


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
    trusted = None if signers is None else Trusted(read_signers(Path(signers)))
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
        whole = "" if audit.complete else ", and not all was tried"
        report.checked.append(
            f"the outcome of an audit by dprelease {audit.version} is the canonical encoding with "
            f"its own digest: of {told} {held}{whole}"
        )
    check_signed(report, Signed(path.name + ENDING, AUDITS, "outcome of an audit", raw), trusted)
    return report
