"""Notes on frames: the id of registered rows, and the details of an answer.

pandas stores notes in the attributes of a frame, and copies them to frames that are computed from
it; Arrow stores the details of an answer in the metadata of a table. All other notes are stored
here, for one object each, as long as the object exists.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from dprelease.errors.argument_types import checked_arguments, wrong_argument
from dprelease.exact.reading.frames import is_instance_of

TOKEN = "dprelease"
"""The note with the opaque id of a frame's registered rows; not with the session, because pandas
copies attributes."""

ATTRIBUTE = "dprelease_answer"
"""The note of an answer: its guarantee, margins, mechanisms, as plain values."""

SQL_ATTRIBUTE = "dprelease"
"""The note of an answer of `dprelease.sql`, with the same values."""

# Keyed by id, because frames of polars have no hash, which a WeakKeyDictionary needs.
_NOTES: dict[int, tuple[Callable[[], object], dict[str, object]]] = {}


def note_of(frame: object, name: str) -> object | None:
    """Return a note on a frame; None without one."""
    attrs = getattr(frame, "attrs", None)
    if isinstance(attrs, dict):
        return attrs.get(name)
    if is_instance_of(frame, "pyarrow", "Table"):
        stored = (frame.schema.metadata or {}).get(name.encode())  # type: ignore[attr-defined]
        if stored is not None:
            details: object = json.loads(stored)
            return details
    held, notes = _NOTES.get(id(frame), (lambda: None, {}))
    # Python reuses the id of an object that is gone.
    return notes.get(name) if held() is frame else None


def set_note(frame: Any, name: str, value: object) -> None:
    """Set a note on a frame."""
    if isinstance(getattr(frame, "attrs", None), dict):
        frame.attrs[name] = value
        return
    key = id(frame)
    held, notes = _NOTES.get(key, (lambda: None, {}))
    if held() is not frame:
        notes = {}
        try:
            _NOTES[key] = weakref.ref(frame, lambda _: _NOTES.pop(key, None)), notes
        except TypeError:  # the class allows no weak references
            _NOTES[key] = (lambda: frame), notes
    notes[name] = value


def is_answer(frame: object) -> bool:
    """Return whether a frame is the answer of a query, or was computed from one by pandas."""
    return any(isinstance(note_of(frame, name), Mapping) for name in (ATTRIBUTE, SQL_ATTRIBUTE))


@checked_arguments
def answer_details(answer: object) -> dict[str, Any]:
    """Return the guarantee, margins of error and mechanisms of an answer, as JSON values.

    Parameters
    ----------
    answer
        A frame or Series that a query of `df.dp`, or `dprelease.sql`, returned. A frame of polars
        has details only as long as it is the same object.

    Raises
    ------
    UsageError
        DP-SESSION-016 for anything else.
    """
    for name in (ATTRIBUTE, SQL_ATTRIBUTE):
        details = note_of(answer, name)
        if isinstance(details, Mapping):
            return dict(details)
    raise wrong_argument("answer", "the result of a query", answer)
