"""Shares of counts or sums in the total of a group of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.measurement import Form, GroupKey, OutputColumn
from dprelease.schema.aggregate_keywords import TotalShareSpec

MOST_CELLS = 1 << 20
"""Maximum number of cells of a table with shares: a total is computed from one batch of cells."""


@dataclass(frozen=True, slots=True)
class Share(Form):
    """The share of a count or sum in the total of its group of cells, from 0 to 1."""

    on_lattice: ClassVar[bool] = False
    needs_all_cells: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the share, with the keys whose cells are added up."""
        part = column.part_names[0]
        names = ", ".join(key.name for key in column.groups)
        within = f"the cells with the same {names}" if names else "all cells"
        positive = "negative values count as 0"
        return f"{part} / the sum of {part} over {within}; {positive}"

    def unit(self, units: Sequence[str]) -> str:
        """Return the unit of shares, which have none."""
        return ""


@dataclass(frozen=True, slots=True)
class Percentage(Form):
    """The same share in percent."""

    on_lattice: ClassVar[bool] = False
    needs_all_cells: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the share, times 100."""
        return f"100 x {SHARE.formula(column)}"

    def unit(self, units: Sequence[str]) -> str:
        """Return the percent sign."""
        return "%"


SHARE, PERCENTAGE = Share(), Percentage()


def _share_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the count or sum of a share; None if the share is refused.

    A count or sum that another column publishes is measured only once for both.
    """
    spec = declared.spec.options_of(TotalShareSpec)
    part = _counted_or_summed(columns, declared)
    reason = _refusal_reason(columns, spec, part)
    if reason is not None:
        columns.refuse(
            "DP-QUERY-020", "columns", declared.name, "share", column=declared.name, reason=reason
        )
    if part is None or reason is not None or columns.keys is None:
        return None
    keys = zip(columns.keys.keys, columns.keys.strides, strict=True)
    groups = [GroupKey(k.column, stride, k.size) for k, stride in keys if k.column in spec.within]
    form = PERCENTAGE if spec.percent else SHARE
    return ColumnParts(form, [("", part)], groups=tuple(groups))


def _counted_or_summed(columns: DeclaredColumns, declared: DeclaredColumn) -> Aggregate | None:
    """Return the count of rows or the sum of a column; None if the column is refused."""
    if declared.column == "*":
        return Count()
    lattice = columns.lattice(declared)
    return None if lattice is None else Sum.of(declared.column, lattice)


def _refusal_reason(
    columns: DeclaredColumns, spec: TotalShareSpec, part: Aggregate | None
) -> str | None:
    """Return why a share can't be computed; None if it can."""
    if columns.keys is None:
        return "the keys are private, so the total of the published cells is not the total of all"
    names = [key.column for key in columns.keys.keys]
    unknown = [name for name in spec.within if name not in names]
    if unknown:
        known = f"its keys are {', '.join(names)}" if names else "it has no keys"
        return f"'{unknown[0]}' is not a key of this table; {known}"
    if columns.keys.size > MOST_CELLS:
        return f"the table has more than {MOST_CELLS:,} cells"
    if part is not None and part.lattice is not None and part.lattice.lower < 0:
        return f"'{part.column}' may be negative, and a part of such a total is no share"
    return None


BY_WORD = {"share": _share_parts}
