"""Describe the rows on both sides of a pair, before they are stored in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

Row = Mapping[str, object]
"""The values of one row by stored column; the value of a column that is not listed is missing."""

Rows = Mapping[str, Sequence[Row]]
"""The rows of one unit, by table."""

NO_ROWS: Rows = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Situation:
    """A privacy unit that is added, removed or replaced, and the other units that are present.

    `description` describes the unit without any of its values. `one` has the rows of the unit on
    the first side, and `other` has the rows of its replacement on the second side.
    `other_units` has the rows of each other unit, which are on both sides. `id_formats` are the
    formats in which the id is written in successive rows of the unit, if ids are stored as texts.
    """

    description: str
    one: Rows
    other: Rows = field(default_factory=lambda: NO_ROWS)
    other_units: tuple[Rows, ...] = ()
    id_formats: tuple[str, ...] = ("{}",)
