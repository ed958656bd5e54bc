"""Sign a release after verification: the signer vouches for the content of the folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from dprelease.documents.encoding import ENDING, SIGNATURE, canonical
from dprelease.errors import OutputError, SignatureError, VerificationError, raise_all
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.release.run_options import read_audit
from dprelease.signatures.keys import SigningKey
from dprelease.signatures.sshsig import AUDITS, MANIFESTS, Signature
from dprelease.system.files import reason_of
from dprelease.verification.verify import verify


@checked_arguments
def sign(folder: str | Path, key: SigningKey, *, overwrite: bool = False) -> Signature:
    """Write the signature of a release next to its manifest, and return it.

    The release is verified first. A reader who has the list of signers can check the signature by
    `verify` or by `ssh-keygen -Y verify`.

    Raises
    ------
    OutputError
        DP-OUTPUT-011 if the folder does not exist.
    VerificationError, Findings
        The findings on the release.
    SignatureError
        DP-SIGN-010 if the release has a signature already, 011 if the operating system does not
        allow the file to be written; 006 if the key can't sign.
    """
    check_paths(folder)
    place = Path(folder)
    if not place.is_dir():
        raise OutputError("DP-OUTPUT-011", path=place)
    path = place / SIGNATURE
    if os.path.lexists(path) and not overwrite:
        raise SignatureError("DP-SIGN-010", name=place.name)
    report = verify(place)
    raise_all(report.findings)
    # Sign the verified bytes, not the current file, which may have been replaced since.
    assert report.sealed is not None  # otherwise the verification would have failed
    manifest = canonical(report.sealed.to_json())
    signature = key.sign(manifest, MANIFESTS)
    if not signature.holds(manifest):
        raise VerificationError("DP-VERIFY-016", by="this key", what="release", signed="manifest")
    _write_atomically(path, signature.to_armor())
    return signature


def sign_audit(path: str | Path, key: SigningKey, *, overwrite: bool = False) -> Signature:
    """Write the signature of the outcome of an audit next to its file, and return it.

    Raises
    ------
    DeclarationError
        DP-AUDIT-003 for a file that is not the unchanged outcome of an audit.
    SignatureError
        The errors of `sign`.
    """
    check_paths(path)
    place = Path(path)
    target = place.with_name(place.name + ENDING)
    if os.path.lexists(target) and not overwrite:
        raise SignatureError("DP-SIGN-010", name=place.name)
    outcome, _ = read_audit(place)
    signature = key.sign(outcome, AUDITS)
    if not signature.holds(outcome):
        raise VerificationError(
            "DP-VERIFY-016", by="this key", what="audit", signed="outcome of an audit"
        )
    _write_atomically(target, signature.to_armor(), place)
    return signature


def _write_atomically(path: Path, text: bytes, signed: Path | None = None) -> None:
    """Write a file by a rename, so that no reader sees a partial file."""
    reason = ""
    try:
        handle, name = mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            model = signed or path.parent / "manifest.json"
            os.chmod(name, model.stat().st_mode & 0o777)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as problem:
        reason = reason_of(problem)
    if reason:
        raise SignatureError("DP-SIGN-011", name=path.parent.name, reason=reason)
