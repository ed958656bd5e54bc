"""Joins of a query: which rows are combined, and why the privacy guarantee still holds.

A public table is joined by a left join on a key that is unique in the public table, so every row of
the queried table stays exactly one row of the same privacy unit. If rows without a match are left
out, it is one row or none, which depends on this row and on the public table alone. A table about
the same people is joined only on the privacy unit: every joined row belongs to one privacy unit,
whose contributions are limited after the join.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dprelease.query.expressions.used_columns import Formulas
from dprelease.schema.columns import Column
from dprelease.schema.load import Declared

COMPARABLE_TYPES = {
    "integer": "whole numbers",
    "text": "texts",
    "category": "texts",
    "cut": "texts",
    "boolean": "truth values",
    "date": "dates",
}
"""The column types that can be join keys, and the type as which their values are compared."""


@dataclass(frozen=True, slots=True)
class Join:
    """A resolved join.

    `on` has pairs of columns that must be equal: a column of the queried table, and a column of the
    joined table. `columns` are the columns of the joined table that the query can name. `by_unit`
    says that the joined table is about the same people. `matched_only` says that rows without a
    match in a public table are left out.
    """

    declared: Declared
    formulas: Formulas
    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    by_unit: bool
    matched_only: bool = False

    def description(self, table: str) -> str:
        """Return the description of the join, for the manifest."""
        name = self.declared.table.name
        if self.by_unit:
            return (
                f"All rows of '{table}' with all rows of '{name}' of the same privacy unit; the "
                "contribution limits apply to the joined rows."
            )
        pairs = " and ".join(f"{left} = {right}" for left, right in self.on)
        others = "its columns are missing if there is no such row"
        if self.matched_only:
            others = "rows without such a row are left out"
        return (
            f"Each row of '{table}' with the one row of the public table '{name}' that has "
            f"{pairs}; {others}."
        )


def visible_columns(
    right: Mapping[str, Column],
    on: tuple[tuple[str, str], ...],
    without: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the columns of a joined table that a query can name.

    These are all columns, except join keys that have the same name in both tables, columns that the
    query leaves out, and cuts of them.
    """
    hidden = {*without, *(name for left, name in on if left == name)}
    cuts = {name for name, one in right.items() if getattr(one, "cut", None) in without}
    return tuple(name for name in right if name not in hidden | cuts)


def comparison_type(column: Column) -> str | None:
    """Return the type to which values of a join key are converted for comparison, or None.

    The result is None if the values can't be join keys.

    Floats are not compared: two different integers may be the same float.
    """
    return COMPARABLE_TYPES.get(getattr(column, "type", "cut"))
