"""The one encoding of manifests, a piece at a time: a text of it takes several times its bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

TEXTS = 1024
"""Texts of the encoder, most of them some letters, that make a piece."""


def pieces(record: dict[str, Any]) -> Iterator[bytes]:
    """Yield the one encoding of a record: sorted keys, two spaces, UTF-8, one final newline."""
    encoder = json.JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    texts = encoder.iterencode(record)
    while piece := "".join(islice(texts, TEXTS)):
        yield piece.encode()
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
