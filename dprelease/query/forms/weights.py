"""Weighted counts, sums and means, and effective sample sizes, from a declared weight column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.query.aggregates.aggregate import ROWS, narrow_aggregate, unit_of
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.measurement import Form, OutputColumn
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


WEIGHTED_MEAN, EFFECTIVE_SIZE = WeightedMean(), EffectiveSize()


def weighted_factor(column: OutputColumn) -> Sum:
    """Return the sum of the values of a weighted mean, without their weights."""
    products, weights = (part.aggregate for part in column.parts)
    both = narrow_aggregate(products, ProductSum)
    weight = replace(narrow_aggregate(weights, Sum), beside=())
    return both.right if both.left == weight else both.left


def _weight(columns: DeclaredColumns, declared: DeclaredColumn) -> Sum | None:
    """Return the sum of the weights, of all rows; None if the column can't be a weight."""
    name = declared.columns[-1]
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


BY_WORD = {
    "weighted_count": _weighted_count_parts,
    "weighted_sum": _weighted_sum_parts,
    "weighted_mean": _weighted_mean_parts,
    "effective_size": _effective_size_parts,
}
