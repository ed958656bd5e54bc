"""What a privacy unit is like on either side of a pair, as rows that are not yet stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

Row = Mapping[str, object]
"""Values of a table's stored columns, by name; what is not there is missing."""

Rows = Mapping[str, Sequence[Row]]
"""Rows of one unit, by table."""

NOBODY: Rows = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Situation:
    """A unit that comes or goes, or gives way to another, and who else is there.

    `words`: what the unit is like, naming no value. `one`, `other`: its rows on either side.
    `crowd`: those of other units, on both sides, each in a mapping of its own. `spelled`: how its
    id is written in its rows, in turn, where that is stored as text.
    """

    words: str
    one: Rows
    other: Rows = field(default_factory=lambda: NOBODY)
    crowd: tuple[Rows, ...] = ()
    spelled: tuple[str, ...] = ("{}",)
