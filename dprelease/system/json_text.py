"""Parse JSON that anybody may have written, with limits on memory and time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MOST_BYTES = 24 << 20
"""Limit of one document: the manifest of ten thousand columns is smaller."""

MOST_ITEMS = 1 << 20
"""Limit of values in lists and mappings: each takes far more memory than its text."""

_TEXT = re.compile(rb'"[^"]*"')


def parse_json(raw: bytes, refuse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError, RecursionError
        If it is not JSON, not UTF-8, nested too deeply, or holds too many values.
    """
    if len(raw) > MOST_BYTES or _has_many_items(raw):
        raise ValueError("larger than what is read")
    # In other encodings, which `loads` would detect, bytes of letters look like JSON punctuation.
    text = raw.decode("utf-8")
    del raw  # frees the bytes if the caller holds no reference
    return json.loads(text, parse_constant=refuse_constant)


def _has_many_items(raw: bytes) -> bool:
    """Return whether there are more values than the limit, without allocating memory for them."""
    if len(raw) <= MOST_ITEMS:  # each value takes at least one byte
        return False
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # the remaining quotes delimit strings
    if plain.count(b'"') > 4 * MOST_ITEMS:  # each value may have a key
        return True
    bare = _TEXT.sub(b"", plain)
    return sum(bare.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS
