"""Neighbouring tables: all rows of both tables, and a description of their difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Mapping[str, "pa.Table"]
"""The table of synthetic rows for each declared table, by name."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sets of synthetic tables that differ in one privacy unit.

    `description` describes the unit without any of its values. The tables of `one` have the unit.
    The tables of `other` lack the unit, or have another unit in its place if neighbours are defined
    by `replace`. `table` is the table about people to which the unit belongs. `one` and `other` may
    store the same column in different physical types.
    """

    description: str
    one: Tables
    other: Tables
    table: str

    @property
    def sides(self) -> tuple[Tables, Tables]:
        """Return both sets of tables."""
        return self.one, self.other
