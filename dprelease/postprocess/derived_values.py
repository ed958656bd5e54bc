"""Compute columns from several noisy vectors, with margins of error: post-processing only.

`WHOLE` and `FRACTIONS` have the arithmetic of every computed form of `query/forms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import LIMIT, Floats, Integers
from dprelease.postprocess.margins import pivot_of, ratio_margins, sum_width
from dprelease.postprocess.variance_margins import VarianceNoise
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.square_sum import SquareSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.centred_moments import MEAN, STDDEV, SUM, VARIANCE
from dprelease.query.forms.ratio import RATIO
from dprelease.query.measurement import Form, OutputColumn

Laws = Mapping[str, Randomizer]
Vectors = Mapping[str, Integers]

EVENLY_SPREAD_ROWS = 1000
"""Number of rows of the cell for which a plan shows the margin of a fraction."""


@dataclass(frozen=True)
class Moments:
    """A centred sum and its count, in lattice steps; NaN if the noisy count is below 1."""

    total: Sum
    count: Floats
    mean: Floats
    """The mean of x - center, within the bounds."""

    @classmethod
    def of(cls, total: Sum, sums: Integers, counts: Integers) -> Moments:
        """Return the moments of each cell, from its noisy centred sum and its noisy count."""
        count = counts.astype(np.float64)
        known = np.where(count >= 1.0, count, math.nan)
        mean = np.clip(sums / known, total.least, total.most)
        return cls(total, count, mean)


def uncentred_sums(total: Sum, sums: Integers, counts: Integers) -> Integers:
    """Return the sums of values from centred sums: sums + center * counts, at most 2^62 in size."""
    largest = int(np.abs(counts).max(initial=0)) * abs(total.center)
    if largest >= LIMIT:  # intermediate values exceed 64 bits
        wide = sums.astype(object) + counts.astype(object) * total.center
        saturated: Integers = np.clip(wide, -LIMIT, LIMIT).astype(np.int64)
        return saturated
    saturated = np.clip(sums + counts * total.center, -LIMIT, LIMIT)
    return saturated


def is_computed(column: OutputColumn) -> bool:
    """Return whether a column is computed from its parts, and not a copy of a single part."""
    return column.form in WHOLE or column.form in FRACTIONS


def whole_of(column: OutputColumn, vectors: Vectors) -> Integers:
    """Return sums (n,) that are computed from other vectors, in steps."""
    return WHOLE[column.form].values(column, vectors)


def whole_margin(column: OutputColumn, laws: Laws, confidence: float) -> int:
    """Return the margin of error of a computed sum in steps; it is the same for all cells."""
    return WHOLE[column.form].margin(column, laws, confidence)


def fractions_of(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return means, ratios, variances or standard deviations (n,), in the column's unit."""
    return FRACTIONS[column.form].values(column, vectors)


def margins_of(column: OutputColumn, vectors: Vectors, laws: Laws, confidence: float) -> Floats:
    """Return margins of error (n,) of fractions, in the column's unit; NaN where there is none."""
    return FRACTIONS[column.form].margins(
        column, vectors, _part_mechanisms(column, laws), confidence
    )


def typical_margin(column: OutputColumn, laws: Laws, confidence: float) -> float | None:
    """Return the margin that all cells have, or else the margin of evenly spread values.

    The result is None if the margin depends on more than the number of rows.
    """
    if column.form in WHOLE:
        return whole_margin(column, laws, confidence) * float(column.step or 1)
    return evenly_spread(column, laws, confidence)


def sum_margin(column: OutputColumn, laws: Laws, confidence: float) -> int:
    """Return the margin of a sum that is computed from a centred sum, in lattice steps."""
    total, parts = narrow_aggregate(column.parts[0].aggregate, Sum), _part_mechanisms(column, laws)
    return math.ceil(sum_width(parts[0], parts[1], total.center, confidence))


def evenly_spread(column: OutputColumn, laws: Laws, confidence: float) -> float | None:
    """Return the margin in a cell of 1,000 rows spread evenly between the bounds.

    The result is None for a ratio of sums, whose margin depends on more than the number of rows.
    """
    if not FRACTIONS[column.form].by_rows:
        return None
    vectors = {
        part.name: np.array([part.aggregate.evenly_spread(EVENLY_SPREAD_ROWS)], dtype=np.int64)
        for part in column.parts
    }
    margin = float(margins_of(column, vectors, laws, confidence)[0])
    return margin if math.isfinite(margin) else None


def _part_mechanisms(column: OutputColumn, laws: Laws) -> list[Mechanism]:
    """Return the noise of every part of a column."""
    of_parts = [laws[part.name] for part in column.parts]
    return [mechanism for mechanism in of_parts if isinstance(mechanism, Mechanism)]


def _moments(column: OutputColumn, vectors: Vectors) -> tuple[Sum, Moments]:
    """Return the centred sum of a column, and the moments of its noisy vectors."""
    *_, total, count = column.parts
    centred = narrow_aggregate(total.aggregate, Sum)
    return centred, Moments.of(centred, vectors[total.name], vectors[count.name])


def _sums(column: OutputColumn, vectors: Vectors) -> Integers:
    """Return sums (n,) in lattice steps, from centred sums and counts."""
    total, count = column.parts
    return uncentred_sums(
        narrow_aggregate(total.aggregate, Sum), vectors[total.name], vectors[count.name]
    )


def _means(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return means (n,) in the column's unit."""
    total, moments = _moments(column, vectors)
    return (moments.mean + total.center) * float(total.step)


def _mean_margins(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Floats:
    """Return the margins of error (n,) of means, in the column's unit."""
    total, moments = _moments(column, vectors)
    ends = float(total.least), float(total.most)
    pivot = pivot_of(parts[0], parts[1], confidence, max(map(abs, ends)))
    return ratio_margins(moments.mean, moments.count, pivot, ends) * float(total.step)


def _variances(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return sample variances (n,) in the column's unit."""
    step = float(_moments(column, vectors)[0].step)
    return _variance(column, vectors)[1] * step**2


def _deviations(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return sample standard deviations (n,) in the column's unit."""
    step = float(_moments(column, vectors)[0].step)
    return np.sqrt(_variance(column, vectors)[1]) * step


def _variance(column: OutputColumn, vectors: Vectors) -> tuple[Moments, Floats]:
    """Return the moments, and sample variances in squared steps: NaN below two rows."""
    squares = narrow_aggregate(column.parts[0].aggregate, SquareSum)
    total, moments = _moments(column, vectors)
    count = np.where(moments.count >= 2.0, moments.count, math.nan)
    square_sums = vectors[column.parts[0].name].astype(np.float64)
    mean_square = (square_sums / count + squares.offset) * squares.coarse
    population = np.clip(mean_square - moments.mean**2, 0.0, _widest(total) / 2)
    return moments, population * count / (count - 1.0)


def _widest(total: Sum) -> float:
    """Return the largest possible sample variance in squared steps: of two rows at the bounds."""
    return (total.upper - total.lower) ** 2 / 2


def _spread_margins(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Floats:
    """Return margins (n,) of variances or standard deviations: the distance to the farther end."""
    squares, total = (
        narrow_aggregate(column.parts[0].aggregate, SquareSum),
        narrow_aggregate(column.parts[1].aggregate, Sum),
    )
    value, step = _variance(column, vectors)[1], float(total.step) ** 2
    if total.least == total.most:  # all values are the same, in any data
        return value
    ends = float(total.least), float(total.most)
    spread = VarianceNoise(parts[0], parts[1], parts[2], squares.coarse, squares.offset, ends)
    noised = [vectors[part.name].astype(np.float64) for part in column.parts]
    low, high = spread.ranges(noised[0], noised[1], noised[2], confidence)
    if column.form == STDDEV:
        low, high, value, step = np.sqrt(low), np.sqrt(high), np.sqrt(value), float(total.step)
    return np.maximum(np.maximum(value - low, high - value), 0.0) * step


def _ratios(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return ratios (n,) of two sums, in the column's unit."""
    over, under = (vectors[part.name].astype(np.float64) for part in column.parts)
    return _ratio(over, under) * float(column.parts[0].step / column.parts[1].step)


def _ratio(over: Floats, under: Floats) -> Floats:
    """Return over / under, which is NaN where the divisor is 0."""
    return over / np.where(under == 0.0, math.nan, under)


def _ratio_margins(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Floats:
    """Return the margins of error (n,) of ratios of two sums; NaN where there is none."""
    over, under = (vectors[part.name].astype(np.float64) for part in column.parts)
    ratio = _ratio(over, under)
    margins = np.full(ratio.shape, math.nan)
    # One pivot is computed for each size of ratios, so that the margin of a cell doesn't depend on
    # other cells.
    size = np.ceil(np.log2(np.maximum(np.abs(ratio), 1.0)) / 2)
    for power in np.unique(size[np.isfinite(size)]).tolist():
        cells = size == power
        pivot = pivot_of(parts[0], parts[1], confidence, 4.0 * 4.0**power)
        margins[cells] = ratio_margins(ratio[cells], under[cells], pivot, None)
    margins[~np.isfinite(margins)] = math.nan
    return margins * float(column.parts[0].step / column.parts[1].step)


@dataclass(frozen=True, slots=True)
class SumArithmetic:
    """The arithmetic of sums that are computed from other vectors.

    `values` returns the sums of all cells, and `margin` the margin of error, which is the same for
    all cells. Both are in steps of the lattice.
    """

    values: Callable[[OutputColumn, Vectors], Integers]
    margin: Callable[[OutputColumn, Laws, float], int]


@dataclass(frozen=True, slots=True)
class FractionArithmetic:
    """The arithmetic of fractions: their values, and a margin for each cell.

    `by_rows`: whether the margin in a cell of evenly spread values follows from its rows alone.
    """

    values: Callable[[OutputColumn, Vectors], Floats]
    margins: Callable[[OutputColumn, Vectors, list[Mechanism], float], Floats]
    by_rows: bool = True


WHOLE: dict[Form, SumArithmetic] = {SUM: SumArithmetic(_sums, sum_margin)}
FRACTIONS: dict[Form, FractionArithmetic] = {
    MEAN: FractionArithmetic(_means, _mean_margins),
    RATIO: FractionArithmetic(_ratios, _ratio_margins, by_rows=False),
    VARIANCE: FractionArithmetic(_variances, _spread_margins),
    STDDEV: FractionArithmetic(_deviations, _spread_margins),
}
