"""Parse untrusted JSON, with limits on memory and time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MOST_BYTES = 24 << 20
"""The maximum number of bytes of a document; a manifest of ten thousand columns has fewer."""

MOST_ITEMS = 1 << 20
"""The maximum number of values of a document, each of which takes far more memory than its text."""

_TEXT = re.compile(rb'"[^"]*"')


def parse_json(raw: bytes, refuse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text.

    Raises ValueError or RecursionError if the text is not JSON or not UTF-8, is nested too deeply,
    or has too many values.
    """
    # Counted before parsing: an empty object takes 64 bytes of memory for three of its text.
    if len(raw) > MOST_BYTES or _has_many_items(raw):
        raise ValueError("larger than what is read")
    # In other encodings, which `loads` would detect, bytes of letters look like JSON punctuation.
    text = raw.decode("utf-8")
    del raw  # frees the bytes if the caller holds no reference
    return json.loads(text, parse_constant=refuse_constant)


def _has_many_items(raw: bytes) -> bool:
    """Return whether a text has more values than the limit, without allocating the values."""
    if len(raw) <= MOST_ITEMS:  # each value takes at least one byte
        return False
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # the remaining quotes delimit strings
    if plain.count(b'"') > 4 * MOST_ITEMS:  # each value may have a key
        return True
    without_texts = _TEXT.sub(b"", plain)
    return sum(without_texts.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS
