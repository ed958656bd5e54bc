"""Neighbouring tables: all of both, and what makes them differ, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Mapping[str, "pa.Table"]
"""A table of invented rows for each that the release declares, by its name."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sets of tables that differ in one privacy unit, all of them invented.

    `words`: what the unit is like, naming no value. `one` has the unit; `other` lacks it, or has
    another in its place where neighbours are told by `replace`. `table`: about whose people the
    unit is. Tables of `one` and `other` may store the same column in two physical types.
    """

    words: str
    one: Tables
    other: Tables
    table: str

    @property
    def sides(self) -> tuple[Tables, Tables]:
        """Return both sets of tables."""
        return self.one, self.other
