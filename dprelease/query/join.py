"""Joins of a query: which rows meet, and why that leaves every guarantee as it is.

A public table is joined from the left by a key that no two of its rows share, so every row of the
asked table stays exactly one row of the same unit. A table about the same people is joined by the
privacy unit alone: every joined row belongs to one unit, whose contribution is bounded afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.expressions.used_columns import Formulas
from dprelease.schema.columns import Column
from dprelease.schema.load import Declared

COMPARED = {
    "integer": "whole numbers",
    "text": "texts",
    "category": "texts",
    "cut": "texts",
    "boolean": "truth values",
    "date": "dates",
}
"""Types whose values can be keys of a join, and as what they are compared."""


@dataclass(frozen=True, slots=True)
class Join:
    """A resolved join.

    `on`: own columns and those of the joined table that they are equal to. `columns`: what the
    query sees of the joined table. `by_unit`: the joined table is about the same people.
    """

    declared: Declared
    formulas: Formulas
    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    by_unit: bool

    def words(self, table: str) -> str:
        """Return what is joined, for the manifest."""
        name = self.declared.table.name
        if self.by_unit:
            return (
                f"All rows of '{table}' with all rows of '{name}' of the same unit; the bounds are "
                "those of joined rows."
            )
        pairs = " and ".join(f"{left} = {right}" for left, right in self.on)
        return (
            f"Each row of '{table}' with the one row of the public table '{name}' that has "
            f"{pairs}; its columns are missing where there is none."
        )


def seen_columns(right: Mapping[str, Column], on: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return what a query sees of a joined table: all but keys that have its own key's name."""
    same = {name for left, name in on if left == name}
    return tuple(name for name in right if name not in same)


def compared_as(column: Column) -> str | None:
    """Return as what the values of a key are compared; None if they can't be.

    Floats are not compared: two different integers may be the same float.
    """
    return COMPARED.get(getattr(column, "type", "cut"))
