"""Read the manifest of an untrusted folder strictly, whatever the folder contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from dprelease.documents.encoding import NAME, digest_of, is_canonical
from dprelease.documents.local_manifest import LocalManifest, LocalRehearsalManifest
from dprelease.documents.manifest import Manifest, RehearsalManifest
from dprelease.documents.party_manifest import FederatedManifest, FederatedRehearsalManifest
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import Place, State, VerificationError
from dprelease.system.files import TooLarge, read_file
from dprelease.system.json_text import MOST_BYTES, parse_json

Rehearsal = RehearsalManifest | LocalRehearsalManifest | FederatedRehearsalManifest
AnyManifest = Manifest | LocalManifest | FederatedManifest | Rehearsal
Wanted = TypeVar("Wanted", bound=ReleaseManifest)

HELD: dict[type[ReleaseManifest], tuple[str, str]] = {
    Manifest: ("manifest", "a release of tables"),
    LocalManifest: ("local_manifest", "a release of single records"),
    FederatedManifest: ("federated_manifest", "one party's messages"),
    RehearsalManifest: ("rehearsal_manifest", "a rehearsal, not a release"),
    LocalRehearsalManifest: (
        "local_rehearsal_manifest",
        "a rehearsal of single records, not a release",
    ),
    FederatedRehearsalManifest: (
        "federated_rehearsal_manifest",
        "a rehearsal of several parties, not a release",
    ),
}
"""The models of manifests, each with the name of its JSON Schema and the content of the folder."""

FORMS: dict[str, type[ReleaseManifest]] = {
    get_args(model.model_fields["format"].annotation)[0]: model for model in HELD
}
"""The models of manifests, by format."""


def read_any_manifest(folder: Path) -> AnyManifest:
    """Return the manifest of a folder, of any known kind; raise the errors of `read_sealed`."""
    found = read_sealed(folder, *HELD)
    assert isinstance(found, AnyManifest)
    return found


def read_sealed(folder: Path, *models: type[Wanted]) -> Wanted:
    """Return the manifest of a folder: canonical bytes with a valid digest, of a known format.

    `models` are the models of the expected kinds of manifests.

    Raises VerificationError: DP-VERIFY-001 if there is no manifest, 002 for bytes that the tool
    would not write, 003 for an unknown format, 025 for an unexpected format. No other error is
    raised, whatever the folder contains.
    """
    raw = _read_bytes(folder / NAME)
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
    model = _model_of(record.get("format"), models)
    found = None
    try:
        found = model.model_validate(record)
        # The model accepts 0 for 0.0, for instance, but the tool writes each value in one way.
        same = is_canonical(found.to_json(), raw)
    except (ValidationError, RecursionError):
        same = False
    if found is None or not same:
        problem = f"it does not fit what `dprelease schema {HELD[model][0]}` prints"
        raise _manifest_error("DP-VERIFY-002", problem=problem)
    return found


def _model_of(format_: object, models: tuple[type[Wanted], ...]) -> type[Wanted]:
    """Return the model of a format; raise an error for an unknown or unexpected format."""
    known = {name: model for name, model in FORMS.items() if model in models}
    if isinstance(format_, str) and format_ in FORMS and format_ not in known:
        wanted = " or ".join(HELD[model][1] for model in models)
        raise _manifest_error("DP-VERIFY-025", found=HELD[FORMS[format_]][1], wanted=wanted)
    for model in models:
        if isinstance(format_, str) and FORMS.get(format_) is model:
            return model
    raise _manifest_error("DP-VERIFY-003", found=str(format_)[:40], known=", ".join(known))


def _read_bytes(path: Path) -> bytes:
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
    return VerificationError(code, place=Place(NAME), state=state, **named)


def _refuse_constant(name: str) -> float:
    """Raise ValueError for a constant that JSON does not have, such as NaN."""
    raise ValueError(name)
