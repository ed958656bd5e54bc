"""The only encoding of manifests, their digests, and the names of their files.

Manifests are encoded piece by piece, because the whole text would take several times its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "manifest.json"
SIGNATURE = "manifest.json.sig"
"""Name of the signature next to a signed manifest, which does not list it as a file.
"""

AUDIT = "audit.json"
"""Name of the outcome's file in the folder of an audit, or of a release that names an audit.

Here, because a release without an audit loads no module on audits.
"""

ENDING = ".sig"
"""Suffix that the name of a signature adds to the name of an audit's outcome."""

LETTERS = 1 << 16
"""Minimum number of characters of a piece, which consists of many short texts of the encoder.

A text that is longer becomes a piece by itself, because joining it to others would copy it.
"""


def encoded_pieces(record: dict[str, Any]) -> Iterator[bytes]:
    """Yield the only encoding of a manifest in pieces: sorted keys, two spaces, UTF-8, newline."""
    # NaN and infinity are no JSON, and two parsers may read them differently.
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
    """Return the SHA-256 of a manifest's encoding without its key `digest`."""
    digest = hashlib.sha256()
    # The digest can't cover itself.
    for piece in encoded_pieces({key: value for key, value in record.items() if key != "digest"}):
        digest.update(piece)
    return digest.hexdigest()


def is_canonical(record: dict[str, Any], raw: bytes) -> bool:
    """Return whether bytes are the encoding of a manifest; stops at the first difference."""
    at = 0
    for piece in encoded_pieces(record):
        if not raw.startswith(piece, at):
            return False
        at += len(piece)
    return at == len(raw)


def canonical(record: dict[str, Any]) -> bytes:
    """Return the only encoding of a manifest: sorted keys, two spaces, UTF-8, one final newline."""
    return b"".join(encoded_pieces(record))


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes, which are read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_if_readable(path: Path) -> str | None:
    """Return the hexadecimal SHA-256 of a file's bytes; None if the file can't be read."""
    try:
        return sha256_of(path)
    except OSError:
        return None
