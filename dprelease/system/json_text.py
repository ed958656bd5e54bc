"""JSON that anybody may have written, read within limits of memory and time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MOST_BYTES = 24 << 20
"""Of one document: the manifest of ten thousand columns is smaller."""

MOST_ITEMS = 1 << 20
"""Values in lists and under keys: each takes far more memory than its text."""

_TEXT = re.compile(rb'"[^"]*"')


def parse_json(raw: bytes, refuse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return what JSON says.

    Raises
    ------
    ValueError, RecursionError
        If it is none, is not UTF-8, is nested too deeply, or holds more than is read.
    """
    if len(raw) > MOST_BYTES or _has_many_items(raw):
        raise ValueError("larger than what is read")
    # In other encodings, which `loads` would detect, bytes of letters look like marks.
    text = raw.decode("utf-8")
    del raw  # whoever keeps no name of it has its room back
    return json.loads(text, parse_constant=refuse_constant)


def _has_many_items(raw: bytes) -> bool:
    """Return whether there are more values than are read, told without any memory for them."""
    if len(raw) <= MOST_ITEMS:  # none takes less than a byte
        return False
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # quotes that are left begin or end
    if plain.count(b'"') > 4 * MOST_ITEMS:  # each value may have a key
        return True
    bare = _TEXT.sub(b"", plain)
    return sum(bare.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS
