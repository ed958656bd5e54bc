"""Ledger entries, each with a digest that covers the entry itself and the previous entry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
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
