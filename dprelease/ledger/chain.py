"""Ledger entries, each with a digest of itself and of the entry before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

START = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: `body` is a JSON object with the key "kind"."""

    number: int
    body: dict[str, Any]
    previous: str
    digest: str

    @property
    def kind(self) -> str:
        """Return the kind of event: open, signers, reserve, read, publish, commit or cancel."""
        return str(self.body["kind"])


def text_of(body: dict[str, Any]) -> str:
    """Return the canonical encoding of a body."""
    return json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False)


def digest_of(number: int, text: str, previous: str) -> str:
    """Return the SHA-256 that binds an entry to its place and to all entries before it."""
    return hashlib.sha256(_bound(number, text, previous)).hexdigest()


def signed_text(entry: Entry) -> bytes:
    """Return the signed content of an entry: all but the signature, with its position."""
    body = {name: value for name, value in entry.body.items() if name != "signature"}
    return _bound(entry.number, text_of(body), entry.previous)


def _bound(number: int, text: str, previous: str) -> bytes:
    return f"{number}\n{previous}\n{text}".encode()


def first_break(entries: Iterable[tuple[int, str, str, str]]) -> int | None:
    """Return the number of the first entry that breaks the chain; None if it is intact.

    Entries are (number, text, previous digest, digest).
    """
    expected, before = 1, START
    for number, text, previous, digest in entries:
        if number != expected or previous != before or digest != digest_of(number, text, previous):
            return expected
        expected, before = number + 1, digest
    return None
