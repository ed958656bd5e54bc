"""Weighted counts, sums and means, effective sample sizes and design errors, from weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.query.aggregates.aggregate import ROWS, narrow_aggregate, unit_of
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.replicate_difference import WIDEST_PRODUCT, ReplicateDifference
from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns, Part
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.measurement import Form, OutputColumn
from dprelease.schema.aggregate_keywords import DesignErrorSpec
from dprelease.schema.number_bounds import fits_decimal


@dataclass(frozen=True, slots=True)
class WeightedMean(Form):
    """A weighted mean: center + sum of w (x - center) / sum of w, within the bounds of x."""

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the weighted mean, with the limits of the result."""
        products, weights = column.part_names
        value = weighted_factor(column)
        center = plain_text(value.center * value.step)
        return f"{center} + {products} / {weights}, within the bounds of '{value.column}'"


@dataclass(frozen=True, slots=True)
class EffectiveSize(Form):
    """The effective sample size of weighted rows (Kish 1965): (sum of w)^2 / sum of w^2."""

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the effective size."""
        squares, weights = column.part_names
        return f"{weights}^2 / {squares}"

    def unit(self, units: Sequence[str]) -> str:
        """Return that rows are counted."""
        return ROWS


@dataclass(frozen=True, slots=True)
class DesignError(Form):
    """The standard error of a weighted count or sum under the sampling design.

    It is the root of `scale` x (the sum of D_r^2 less the variances of the noise in D_r), where D_r
    is the estimate with replicate weights r less the estimate (Wolter 2007, Introduction to
    Variance Estimation, 2nd edition, chapters 3 to 5).
    """

    on_lattice: ClassVar[bool] = False

    def formula(self, column: OutputColumn) -> str:
        """Return the formula of the design error, and what its interval covers."""
        first, *others = column.part_names
        sums = f"{first} to {others[-1]}" if others else first
        difference = narrow_aggregate(column.parts[0].aggregate, ReplicateDifference)
        value, weight = difference.value, difference.weight.column
        total = "count" if value is None else f"sum of '{value.column}'"
        return (
            f"standard error under the sampling design of the weighted {total} with weight "
            f"'{weight}': root of {column.scale} x (sum of the squares of {sums}, less the "
            "variances of their noise); its interval covers the noise alone"
        )


WEIGHTED_MEAN, EFFECTIVE_SIZE, DESIGN_ERROR = WeightedMean(), EffectiveSize(), DesignError()


def weighted_factor(column: OutputColumn) -> Sum:
    """Return the sum of the values of a weighted mean, without their weights."""
    products, weights = (part.aggregate for part in column.parts)
    both = narrow_aggregate(products, ProductSum)
    weight = replace(narrow_aggregate(weights, Sum), beside=())
    return both.right if both.left == weight else both.left


def _weight(columns: DeclaredColumns, declared: DeclaredColumn, column: str = "") -> Sum | None:
    """Return the sum of the weights, of all rows; None if the column can't be a weight.

    Without a column, the weight is the last column that the aggregate names.
    """
    name = column or declared.columns[-1]
    lattice = columns.lattice(declared, name)
    if lattice is None:
        return None
    if lattice.lower < 0:
        reason = "its lower bound is below 0"
        columns.refuse_column("DP-QUERY-023", declared, name, reason=reason)
        return None
    return Sum.of(name, lattice)


def _value_and_weight(columns: DeclaredColumns, declared: DeclaredColumn) -> tuple[Sum, Sum] | None:
    """Return the sums of values and of weights; None if the column is refused."""
    lattice, weight = columns.lattice(declared), _weight(columns, declared)
    if lattice is None or weight is None:
        return None
    return Sum.of(declared.column, lattice), weight


def _weighted_count_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the sum of the weights; None if the column is refused."""
    weight = _weight(columns, declared)
    return None if weight is None else ColumnParts(MEASURED, [("", weight)])


def _weighted_sum_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the sum of the products of values and weights; None if the column is refused."""
    found = _value_and_weight(columns, declared)
    if found is None:
        return None
    products = ProductSum.of(*found)
    if not fits_decimal(products.step):
        reason = f"its products with '{declared.column}' have too many digits"
        columns.refuse_column("DP-QUERY-023", declared, declared.columns[-1], reason=reason)
        return None
    return ColumnParts(MEASURED, [("", products)])


def _weighted_mean_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the products of weights and centred values, and the weights of the same rows."""
    found = _value_and_weight(columns, declared)
    if found is None:
        return None
    value, weight = found
    parts = [
        ("products", ProductSum.of(value.centered_sum, weight)),
        ("weights", replace(weight, beside=columns.droppable([value.column], weight.column))),
    ]
    unit = unit_of(value.column, columns.table.columns)
    return ColumnParts(WEIGHTED_MEAN, parts, unit=unit)


def _effective_size_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the sums of the squared weights and of the weights; None if the column is refused."""
    weight = _weight(columns, declared)
    if weight is None:
        return None
    parts = [("squares", ProductSum.of(weight, weight)), ("weights", weight)]
    return ColumnParts(EFFECTIVE_SIZE, parts)


def _design_error_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the sums of differences of all replicates; None if a column is refused.

    The R parts divide the share of the column equally. Gaussian noise of a part with the largest
    shift d then has the variance R d^2 / (2 rho): that of all R parts as one vector, whose squared
    L2 sensitivity is R d^2, at the whole rho.
    """
    spec = declared.spec.options_of(DesignErrorSpec)
    weights = (spec.weight, *spec.replicates)
    twice = next((name for i, name in enumerate(weights) if name in weights[:i]), None)
    if twice is not None:
        columns.refuse_column("DP-QUERY-024", declared, twice)
        return None
    weight = _weight(columns, declared, spec.weight)
    replicates, values = (
        [
            Sum.of(name, lattice)
            for name in names
            if (lattice := columns.lattice(declared, name)) is not None
        ]
        for names in (spec.replicates, [] if spec.of is None else [spec.of])
    )
    if weight is None or len([weight, *replicates, *values]) < len(declared.columns):
        return None
    value = values[0] if values else None
    sums = [ReplicateDifference.of(one, weight, value, spec.max_difference) for one in replicates]
    if any(_refuse_steps(columns, declared, one, spec.max_difference) for one in sums):
        return None
    shares = (Fraction(1, len(sums)),) * len(sums)
    parts: list[Part] = [(one.column, one) for one in sums]
    return ColumnParts(DESIGN_ERROR, parts, shares=shares, scale=spec.scale)


def _refuse_steps(
    columns: DeclaredColumns, declared: DeclaredColumn, one: ReplicateDifference,
    limit: Fraction | None,
) -> bool:  # fmt: skip
    """Return whether a replicate was refused, because its steps are too fine or don't fit."""
    step = one.difference_step
    if limit is not None and (limit / step).denominator != 1:
        columns.refuse(
            "DP-QUERY-010",
            *("columns", declared.name, declared.kind, "max_difference"),
            column=declared.name,
            key="max_difference",
            step=plain_text(step),
        )
        return True
    if not fits_decimal(one.step) or one.largest_product >= WIDEST_PRODUCT:
        reason = f"its differences from '{one.weight.column}' have too many digits"
        columns.refuse_column("DP-QUERY-023", declared, one.column, reason=reason)
        return True
    return False


BY_WORD = {
    "weighted_count": _weighted_count_parts,
    "weighted_sum": _weighted_sum_parts,
    "weighted_mean": _weighted_mean_parts,
    "effective_size": _effective_size_parts,
    "design_error": _design_error_parts,
}
