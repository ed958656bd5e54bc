"""Ratios of two quantiles of a column, such as P80 / P20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from dprelease.query.aggregates.quantile import MOST_CANDIDATES, Quantile
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.measurement import Form, OutputColumn
from dprelease.schema.aggregate_keywords import QuantileRatioSpec
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.columns import IntegerColumn, NumberColumn

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


BY_WORD = {"quantile_ratio": _quantile_ratio_parts}
