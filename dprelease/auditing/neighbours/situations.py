"""Describe the rows of a privacy unit on both sides of a pair, before they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

Row = Mapping[str, object]
"""The values of the stored columns of one row, by name; a column without a value is missing."""

Rows = Mapping[str, Sequence[Row]]
"""The rows of one unit, by table."""

NOBODY: Rows = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Situation:
    """A unit that is added, removed or replaced, and the other units that are present.

    `description` describes the unit without any of its values. `one` and `other` are its rows on
    the two sides. `crowd` has the rows of other units, which are on both sides, with one mapping
    per unit. `spelled` has the formats in which the id is written in successive rows of the unit,
    if ids are stored as text.
    """

    description: str
    one: Rows
    other: Rows = field(default_factory=lambda: NOBODY)
    crowd: tuple[Rows, ...] = ()
    spelled: tuple[str, ...] = ("{}",)
