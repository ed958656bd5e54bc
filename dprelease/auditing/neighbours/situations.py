"""Describe a privacy unit on either side of a pair, as rows that are not yet stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

Row = Mapping[str, object]
"""Values of a table's stored columns, by name; columns that are not in it are missing."""

Rows = Mapping[str, Sequence[Row]]
"""Rows of one unit, by table."""

NOBODY: Rows = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Situation:
    """A unit that is added, removed or replaced, and the other units present.

    `description`: of the unit, without any value. `one`, `other`: its rows on either side.
    `crowd`: the rows of other units, on both sides, one mapping per unit. `spelled`: how its id
    is
    written in its rows, in turn, if ids are stored as text.
    """

    description: str
    one: Rows
    other: Rows = field(default_factory=lambda: NOBODY)
    crowd: tuple[Rows, ...] = ()
    spelled: tuple[str, ...] = ("{}",)
