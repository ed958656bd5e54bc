"""Neighbouring tables: all rows of both, and the difference in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Mapping[str, "pa.Table"]
"""A table of synthetic rows for each declared one, by name."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sets of synthetic tables that differ in one privacy unit.

    `description`: of the unit, without any value. `one` has the unit; `other` lacks it, or has
    another in its place if neighbours are defined by `replace`. `table`: the table about people
    that
    the unit belongs to. Tables of `one` and `other` may store the same column in two physical
    types.
    """

    description: str
    one: Tables
    other: Tables
    table: str

    @property
    def sides(self) -> tuple[Tables, Tables]:
        """Return both sets of tables."""
        return self.one, self.other
