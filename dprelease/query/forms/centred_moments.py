"""Forms of sums, means and variances, computed from counts and sums around the middle of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns, Part
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.measurement import Form, OutputColumn


@dataclass(frozen=True, slots=True)
class CentredSum(Form):
    """A sum, computed from a centred sum and a count: sum + center * count."""

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the sum."""
        total, count = column.part_names
        return f"{total} + {_center_text(column)} x {count}"

    def largest_shift(self, column: OutputColumn) -> int:
        """Return how far one privacy unit changes the whole sum, not only its centred part."""
        total, count = (part.sensitivity.largest_shift for part in column.parts)
        return total + abs(narrow_aggregate(column.parts[0].aggregate, Sum).center) * count


@dataclass(frozen=True, slots=True)
class Mean(Form):
    """A mean, computed from a centred sum and a count: center + sum / count, within the bounds."""

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the mean, with the limits of the result."""
        total, count = column.part_names
        within = f"within the column's bounds{_rows_text(column)}"
        return f"{_center_text(column)} + {total} / {count}, {within}"


@dataclass(frozen=True, slots=True)
class Variance(Form):
    """A sample variance, at least 0, computed from centred squares, a centred sum and a count."""

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the variance, with the limits of the result."""
        squares, total, count = column.part_names
        return (
            f"sample variance from {squares} (squares), {total} (sum) and {count} "
            f"(rows), within what the bounds allow{_rows_text(column)}"
        )


@dataclass(frozen=True, slots=True)
class StandardDeviation(Form):
    """The square root of the variance."""

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula: the square root of the variance's formula."""
        return f"square root of the {VARIANCE.formula(column)}"

    def unit(self, units: Sequence[str]) -> str:
        """Return the unit of the sum."""
        return units[1]


LARGEST_SUM = 2**62
"""The largest sum of a privacy unit that can be declared, in steps."""

SUM, MEAN = CentredSum(), Mean()
VARIANCE, STDDEV = Variance(), StandardDeviation()


def _center_text(column: OutputColumn) -> str:
    """Return the center that is subtracted before values are summed, as a text."""
    total = narrow_aggregate(column.parts[0].aggregate, Sum)
    return plain_text(total.center * total.step)


def _rows_text(column: OutputColumn) -> str:
    """Return a text that names the rows of a column; empty if it is computed from all rows."""
    counted = column.parts[-1].aggregate.column
    return "" if counted is None else f", of rows with '{counted}' present"


def _sum_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return a plain sum, or the centred sum and the count if other columns need these anyway.

    Sharing them halves the noise, compared with a separate sum in addition to them.
    """
    lattice = columns.lattice(declared)
    if lattice is None:
        return None
    total = Sum.of(declared.column, lattice)
    if declared.spec.max_sum is not None:
        return _clipped_sum_parts(columns, declared, total)
    shared = declared.column in columns.once(columns_with_moments)
    own = declared.has_own_noise or declared.spec.margin_wanted is not None
    # With bounds around 0, the plain sum equals the centred one, and is measured once anyway.
    always_zero = total.least == total.most == 0
    if own or not shared or always_zero or total.centered_sum.least == total.least:
        return ColumnParts(MEASURED, [("", total)])
    return ColumnParts(SUM, _moment_parts(columns, total))


def _clipped_sum_parts(
    columns: DeclaredColumns, declared: DeclaredColumn, total: Sum
) -> ColumnParts | None:
    """Return a sum whose privacy units are clipped; None if `max_sum` is refused.

    It shares no measurement with a mean, whose sum is not clipped.
    """
    most = (declared.spec.max_sum or 0) / total.step
    if columns.table.unit.id is None:
        columns.refuse("DP-QUERY-018", "columns", declared.name, "max_sum", column=declared.name)
        return None
    if most.denominator != 1 or most > LARGEST_SUM:
        columns.refuse(
            "DP-QUERY-010",
            *("columns", declared.name, "max_sum"),
            column=declared.name,
            key="max_sum",
            step=plain_text(total.step),
        )
        return None
    return ColumnParts(MEASURED, [("", replace(total, most_of_unit=int(most)))])


def _mean_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the measurements of a mean; None if the column has no bounds."""
    lattice = columns.lattice(declared)
    if lattice is None:
        return None
    return ColumnParts(MEAN, _moment_parts(columns, Sum.of(declared.column, lattice)))


def _variance_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the measurements of a variance or standard deviation; None without bounds."""
    lattice = columns.lattice(declared)
    if lattice is None:
        return None
    total = Sum.of(declared.column, lattice)
    form = {"variance": VARIANCE, "stddev": STDDEV}[declared.kind]
    return ColumnParts(
        form, [("squares", ProductSum.squares(total.centered_sum)), *_moment_parts(columns, total)]
    )


def _moment_parts(columns: DeclaredColumns, total: Sum) -> list[Part]:
    """Return a centred sum, and the count of the rows that the sum includes.

    The sum includes all rows if missing values are replaced.
    """
    counted = Count(total.column) if columns.drops_missing(total.column) else Count()
    return [("sum", total.centered_sum), ("count", counted)]


def columns_with_moments(columns: DeclaredColumns) -> frozenset[str]:
    """Return the columns whose centred sums and counts are measured for a mean or a variance."""
    return frozenset(
        declared.column
        for declared in columns.all_declared
        if declared.kind in ("mean", "variance", "stddev") and not declared.has_own_noise
    )


BY_WORD = {
    "sum": _sum_parts,
    "mean": _mean_parts,
    "variance": _variance_parts,
    "stddev": _variance_parts,
}
