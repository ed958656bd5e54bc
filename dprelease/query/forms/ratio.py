"""Ratios of two sums over the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.measurement import Form, OutputColumn


@dataclass(frozen=True, slots=True)
class Ratio(Form):
    """The ratio of two sums."""

    on_lattice: ClassVar[bool] = False
    has_open_ends: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the ratio, with the rows that both sums include."""
        over, under = column.part_names
        both = any(len(part.aggregate.reads) > 1 for part in column.parts)
        return f"{over} / {under}" + ", of rows with both present" * both

    def unit(self, units: Sequence[str]) -> str:
        """Return the quotient of the two units; empty if neither sum has a unit."""
        return f"{units[0] or 1} / {units[1]}" if units[1] else units[0]


RATIO = Ratio()


def _ratio_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return two sums over the rows in which both columns are present.

    Without this condition, a row with one missing value would count in the other sum, and the ratio
    would compare two different populations.
    """
    over, under = declared.columns
    lattices = [columns.lattice(declared, column) for column in (over, under)]
    sums = [
        Sum.of(column, lattice)
        for column, lattice in zip(declared.columns, lattices, strict=True)
        if lattice is not None
    ]
    if len(sums) < 2:
        return None
    pairs = [
        _sum_where_present(columns, sums[0], under),
        _sum_where_present(columns, sums[1], over),
    ]
    return ColumnParts(RATIO, [("over", pairs[0]), ("under", pairs[1])])


def _sum_where_present(columns: DeclaredColumns, total: Sum, other: str) -> Sum:
    """Return the sum over rows in which `other` is present; unchanged if it can't be missing."""
    dropped = columns.drops_missing(other) and other != total.column
    return replace(total, beside=(other,)) if dropped else total


BY_WORD = {"ratio": _ratio_parts}
