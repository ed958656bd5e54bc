"""Describe pairs of neighbouring tables, with all rows of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Mapping[str, "pa.Table"]
"""The synthetic rows of each declared table, by the name of the table."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sets of synthetic tables that differ in one privacy unit.

    `description` describes the privacy unit without any of its values. The tables of `one` have the
    unit. The tables of `other` lack the unit, or have its replacement if the neighbours of the
    release are defined by `replace`. `table` is the table about people to which the unit belongs.
    The two sides may store the same column in different physical types.
    """

    description: str
    one: Tables
    other: Tables
    table: str

    @property
    def sides(self) -> tuple[Tables, Tables]:
        """Return both sets of tables."""
        return self.one, self.other
