"""Ledger entries: the chain of their digests, and the order of the steps of a reservation.

The digest of an entry covers the entry itself and the previous entry.

A reservation is charged from the moment at which it is written. The step `read` is written before
the first row about people is read, and so before there is any result that depends on a row, with or
without noise. A reservation without `read` has certainly released nothing, and may be refunded. A
reservation with `read` stays charged permanently, however its run ends. A reservation of format 1,
which has no step `read`, also stays charged: its run may have left noisy answers in a private
folder. The step `publish` is written right before the rename that makes a release readable, and
`commit` after the rename. A `commit` has the digest of the manifest, an empty text for an answer
without a manifest, or null for a run that failed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_DIGEST = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger, whose `body` is a JSON object with the key "kind"."""

    number: int
    body: dict[str, Any]
    previous: str
    digest: str

    @property
    def kind(self) -> str:
        """Return the kind: open, signers, reserve, read, publish, commit or cancel."""
        return str(self.body["kind"])


def canonical_json_text(body: dict[str, Any]) -> str:
    """Return the canonical JSON text of an entry's body."""
    # NaN is not JSON: another program could not read the body, or compute its digest.
    return json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False)


def entry_digest(number: int, text: str, previous: str) -> str:
    """Return the SHA-256 digest of an entry: of its number, its text, and the previous digest."""
    return hashlib.sha256(_hashed_bytes(number, text, previous)).hexdigest()


def signed_text(entry: Entry) -> bytes:
    """Return the bytes that the signature of an entry covers.

    These are its number, the previous digest, and its body without the signature.
    """
    body = {name: value for name, value in entry.body.items() if name != "signature"}
    return _hashed_bytes(entry.number, canonical_json_text(body), entry.previous)


def _hashed_bytes(number: int, text: str, previous: str) -> bytes:
    """Return the bytes of an entry, whose digest links the entry to the previous entry."""
    return f"{number}\n{previous}\n{text}".encode()


def first_broken_entry(entries: Iterable[tuple[int, str, str, str]]) -> int | None:
    """Return the number of the first entry that breaks the chain; None if the chain is intact.

    Each entry is a tuple (number, text, digest of the previous entry, digest).
    """
    expected, before = 1, FIRST_DIGEST
    for number, text, previous, digest in entries:
        if (
            number != expected
            or previous != before
            or digest != entry_digest(number, text, previous)
        ):
            return expected
        expected, before = number + 1, digest
    return None


OPEN, SIGNERS, RESERVE, READ, PUBLISH, COMMIT, CANCEL = (
    "open", "signers", "reserve", "read", "publish", "commit", "cancel",
)  # fmt: skip

FOLLOWING: dict[tuple[str, ...], frozenset[str]] = {
    # Ledgers of format 1 have no `read`: the step after the reservation was `publish` or `commit`.
    (): frozenset({READ, PUBLISH, COMMIT, CANCEL}),
    (READ,): frozenset({PUBLISH, COMMIT}),
    (PUBLISH,): frozenset({COMMIT}),
    (READ, PUBLISH): frozenset({COMMIT}),
}
"""The allowed kinds of the next step, by the previous steps."""


def problem_of(steps: Sequence[str], body: dict[str, Any]) -> str | None:
    """Return why a step can't follow the earlier steps of its reservation; None if it can."""
    kind = str(body["kind"])
    if kind not in FOLLOWING.get(tuple(steps), ()):
        return f"'{kind}' can't follow '{steps[-1] if steps else RESERVE}'"
    if kind == COMMIT and body.get("manifest") is not None:
        if not steps:
            return "an answer was committed for which no row was read"
        if body["manifest"] and PUBLISH not in steps:
            return "a release was committed that was never published"
    return None
