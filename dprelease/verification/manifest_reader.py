"""Read the manifest of an untrusted folder: strictly, for any content, and without blocking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dprelease.documents import manifest
from dprelease.documents.encoding import digest_of, is_canonical
from dprelease.documents.json_schemas import Manifest, RehearsalManifest
from dprelease.documents.local_manifest import FORMAT as LOCAL
from dprelease.documents.local_schema import LocalManifest, LocalRehearsalManifest
from dprelease.documents.party_manifest import FORMAT as FEDERATED
from dprelease.documents.party_schema import FederatedManifest, FederatedRehearsalManifest
from dprelease.documents.rehearsal_manifest import FORMAT as REHEARSAL
from dprelease.documents.rehearsal_manifest import OF_PARTIES, OF_RECORDS
from dprelease.errors import Place, State, VerificationError
from dprelease.system.files import TooLarge, read_file
from dprelease.system.json_text import MOST_BYTES, parse_json

FORMS: dict[str, tuple[str, type[BaseModel]]] = {
    manifest.FORMAT: ("manifest", Manifest),
    LOCAL: ("local_manifest", LocalManifest),
    FEDERATED: ("federated_manifest", FederatedManifest),
    REHEARSAL: ("rehearsal_manifest", RehearsalManifest),
    OF_RECORDS: ("local_rehearsal_manifest", LocalRehearsalManifest),
    OF_PARTIES: ("federated_rehearsal_manifest", FederatedRehearsalManifest),
}
"""The known formats of manifests, and the name of the JSON Schema of each."""

HELD = {
    manifest.FORMAT: "a release of tables",
    LOCAL: "a release of single records",
    FEDERATED: "one party's messages",
    REHEARSAL: "a rehearsal, not a release",
    OF_RECORDS: "a rehearsal of single records, not a release",
    OF_PARTIES: "a rehearsal of several parties, not a release",
}
"""Description of the content of a folder, by the format of its manifest."""


def read_sealed(folder: Path, *forms: str) -> dict[str, Any]:
    """Return the manifest of a folder: canonical bytes with a valid digest, of a known format.

    `forms`: the expected formats; by default any known one.

    Raises
    ------
    VerificationError
        DP-VERIFY-001 if there is none, 002 for other bytes than the tool writes, 003 for an unknown
        format, 025 for an unexpected one. No other error is raised, for any content of the folder.
    """
    raw = _raw(folder / manifest.NAME)
    try:
        record: Any = parse_json(raw, _refuse_constant)
        same = isinstance(record, dict) and is_canonical(record, raw)
    except (ValueError, RecursionError):
        raise _manifest_error("DP-VERIFY-002", problem="it is not strict JSON") from None
    if not same:
        raise _manifest_error(
            "DP-VERIFY-002", problem="its bytes are not in the canonical encoding"
        )
    if record.get("digest") != digest_of(record):
        raise _manifest_error("DP-VERIFY-002", problem="its digest does not match")
    format_, known = record.get("format"), forms or tuple(FORMS)
    if isinstance(format_, str) and format_ in FORMS and format_ not in known:
        wanted = " or ".join(HELD[one] for one in known)
        raise _manifest_error("DP-VERIFY-025", found=HELD[format_], wanted=wanted)
    if not isinstance(format_, str) or format_ not in known:
        raise _manifest_error("DP-VERIFY-003", found=str(format_)[:40], known=", ".join(known))
    name, form = FORMS[format_]
    try:
        form.model_validate(record)
    except (ValidationError, RecursionError):
        problem = f"it does not fit what `dprelease schema {name}` prints"
        raise _manifest_error("DP-VERIFY-002", problem=problem) from None
    return dict(record)


def _raw(path: Path) -> bytes:
    """Return the bytes of a regular file within the size limit of manifests."""
    problem = ""
    try:
        return read_file(path, MOST_BYTES)
    except TooLarge as refused:
        problem = str(refused.strerror)
    except OSError:
        pass
    if problem:
        raise _manifest_error("DP-VERIFY-002", problem=problem)
    raise _manifest_error("DP-VERIFY-001")


def _manifest_error(code: str, **fields: str) -> VerificationError:
    named: dict[str, Any] = dict(fields)
    # Without a manifest it is unknown whether there was a release.
    state = State.NOTHING if code == "DP-VERIFY-001" else State.RELEASED
    return VerificationError(code, place=Place(manifest.NAME), state=state, **named)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
