"""Ratios of two sums over the same rows, and of two quantiles of a column, such as P80 / P20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from dprelease.query.aggregates.quantile import MOST_CANDIDATES, Quantile
from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.measurement import Form, OutputColumn
from dprelease.schema.aggregate_keywords import QuantileRatioSpec
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.columns import IntegerColumn, NumberColumn


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


PARTS = ("over", "over_lower", "over_upper", "under", "under_lower", "under_upper")
"""The measurements of a ratio: two quantiles, each with the ends of its interval."""


@dataclass(frozen=True, slots=True)
class QuantileRatio(Form):
    """The ratio of a larger quantile to a smaller one, at least 1."""

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the ratio, with those of the ends of its interval."""
        names = dict(zip(PARTS, column.part_names, strict=True))
        return (
            f"{names['over']} / {names['under']}, at least 1, in the interval from "
            f"{names['over_lower']} / {names['under_upper']} to "
            f"{names['over_upper']} / {names['under_lower']}"
        )

    def unit(self, units: Sequence[str]) -> str:
        """Return that ratios of two values of one column have no unit."""
        return ""


QUANTILE_RATIO = QuantileRatio()


def _quantile_ratio_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the two quantiles of a ratio with their intervals; None if the column is refused.

    The ratio lies in its interval if both quantiles lie in theirs (Bonferroni), so that each may be
    missed with half of the probability.
    """
    lattice = columns.lattice(declared, kinds=(IntegerColumn, NumberColumn))
    confidence = declared.spec.margin or DEFAULT_CONFIDENCE
    if lattice is None:
        return None
    reason = None
    if lattice.lower < 0:
        reason = f"'{declared.column}' may be negative, and a negative quantile has no ratio"
    elif confidence < DEFAULT_CONFIDENCE:
        reason = "an interval of quantiles has a confidence of at least 95 %"
    if reason is not None:
        columns.refuse(
            "DP-QUERY-021", "columns", declared.name, declared.kind,
            column=declared.name, reason=reason,
        )  # fmt: skip
        return None
    spec = declared.spec.options_of(QuantileRatioSpec)
    stride = -(-(lattice.upper - lattice.lower + 1) // MOST_CANDIDATES)
    quantiles = []
    for at in (spec.over, spec.under):
        value = Quantile(declared.column, lattice.lower, lattice.upper, lattice.step, at, stride)
        ends = [replace(value, side=side, confidence=1 - (1 - confidence) / 2) for side in (-1, 1)]
        quantiles += [value, *ends]
    shares = (Fraction(1, len(PARTS)),) * len(PARTS)
    return ColumnParts(QUANTILE_RATIO, list(zip(PARTS, quantiles, strict=True)), shares=shares)


BY_WORD = {"quantile_ratio": _quantile_ratio_parts, "ratio": _ratio_parts}
