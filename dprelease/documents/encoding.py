"""The one encoding of manifests, their digests, and the names of their files.

They are encoded a piece at a time: a text of the whole takes several times its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "manifest.json"
SIGNATURE = "manifest.json.sig"
"""Next to a manifest that somebody signed; not a file of the release itself."""

LETTERS = 1 << 16
"""Of texts that make a piece: the encoder's are of some letters each. A longer one is a piece by
itself, for what is joined is there twice."""


def pieces(record: dict[str, Any]) -> Iterator[bytes]:
    """Yield the one encoding of a record: sorted keys, two spaces, UTF-8, one final newline."""
    encoder = json.JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    held: list[str] = []
    letters = 0
    for text in encoder.iterencode(record):
        letters += len(text)
        if letters > LETTERS and held:
            yield "".join(held).encode()
            held, letters = [], len(text)
        held.append(text)
    yield "".join(held).encode()
    yield b"\n"


def digest_of(record: dict[str, Any]) -> str:
    """Return the SHA-256 of a record's encoding, its own digest left out."""
    digest = hashlib.sha256()
    for piece in pieces({key: value for key, value in record.items() if key != "digest"}):
        digest.update(piece)
    return digest.hexdigest()


def is_canonical(record: dict[str, Any], raw: bytes) -> bool:
    """Return whether bytes are the encoding of a record; the first that differ end it."""
    at = 0
    for piece in pieces(record):
        if not raw.startswith(piece, at):
            return False
        at += len(piece)
    return at == len(raw)


def canonical(record: dict[str, Any]) -> bytes:
    """Return the one encoding of a record: sorted keys, two spaces, UTF-8, one final newline."""
    return b"".join(pieces(record))


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes, which are read a piece at a time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
