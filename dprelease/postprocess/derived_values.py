"""Compute columns from several noisy vectors, with intervals: post-processing only.

`WHOLE` and `FRACTIONS` have the arithmetic of every computed form of `query/forms`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import LIMIT, Flags, Floats, Integers
from dprelease.postprocess.estimates import (
    Ends,
    FractionArithmetic,
    Mechanisms,
    SumArithmetic,
    Vectors,
    bounded_ratios,
    ratio_or_nan,
    values_at_ends,
)
from dprelease.postprocess.joint_moments import PAIRS, REGRESSIONS
from dprelease.postprocess.margins import (
    Estimates,
    group_numbers,
    margin_factor,
    share_estimates,
    sum_width,
)
from dprelease.postprocess.quantile_order import quantile_ratio_estimates
from dprelease.postprocess.survey_estimates import DESIGN_ERRORS, WEIGHTED
from dprelease.postprocess.variance_margins import VarianceNoise
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.centred_moments import MEAN, STDDEV, SUM, VARIANCE
from dprelease.query.forms.ratio import QUANTILE_RATIO, RATIO
from dprelease.query.forms.share_of_total import PERCENTAGE, SHARE
from dprelease.query.measurement import Form, OutputColumn

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


def whole_margin(column: OutputColumn, mechanisms: Mechanisms, confidence: float) -> int:
    """Return the margin of error of a computed sum in steps; it is the same for all cells."""
    return WHOLE[column.form].margin(column, mechanisms, confidence)


def noise_weights(column: OutputColumn) -> dict[str, Fraction]:
    """Return what one step of noise of each measurement adds to a count or a sum, by its name."""
    weights = {column.parts[0].name: column.parts[0].step}
    if column.form == SUM:
        total = narrow_aggregate(column.parts[0].aggregate, Sum)
        weights[column.parts[1].name] = total.center * total.step
    return weights


def fractions_of(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return means, ratios, variances or standard deviations (n,), in the column's unit."""
    return FRACTIONS[column.form].values(column, vectors)


def estimates_of(
    column: OutputColumn, vectors: Vectors, mechanisms: Mechanisms, confidence: float
) -> Estimates:
    """Return fractions with their intervals at a confidence, in the column's unit."""
    return FRACTIONS[column.form].estimates(
        column, vectors, _part_mechanisms(column, mechanisms), confidence
    )


def ends_of(column: OutputColumn) -> Ends:
    """Return the bounds of fractions, in the column's unit; an end is infinite if none follows."""
    return FRACTIONS[column.form].ends(column)


def _ends_of_ratio_values(column: OutputColumn) -> Ends:
    """Return the bounds of ratios, in the column's unit."""
    step = float(column.parts[0].step / column.parts[1].step)
    low, high = _ends_of_ratio(column)
    return low * step, high * step


def _ends_of_quantile_ratio(column: OutputColumn) -> Ends:
    lattice = column.parts[0].aggregate.lattice
    positive = lattice is not None and lattice.lower > 0
    return 1.0, lattice.upper / lattice.lower if lattice and positive else math.inf


def _ends_of_share(column: OutputColumn) -> Ends:
    return 0.0, 100.0 if column.form == PERCENTAGE else 1.0


def _ends_of_mean(column: OutputColumn) -> Ends:
    """Return the bounds of means: those of the column."""
    total = narrow_aggregate(column.parts[0].aggregate, Sum)
    step = float(total.step)
    return total.lower * step, total.upper * step


def _ends_of_variance(column: OutputColumn) -> Ends:
    total = narrow_aggregate(column.parts[1].aggregate, Sum)
    return 0.0, _widest(total) * float(total.step) ** 2


def _ends_of_deviation(column: OutputColumn) -> Ends:
    """Return the bounds of standard deviations."""
    return 0.0, math.sqrt(_ends_of_variance(column)[1])


def typical_margin(
    column: OutputColumn, mechanisms: Mechanisms, confidence: float, rows: int = EVENLY_SPREAD_ROWS
) -> float | None:
    """Return the margin that all cells have, or else the margin of evenly spread values.

    `rows` is the number of rows of such a cell. The result is None if the margin depends on more
    than the number of rows.
    """
    if column.form in WHOLE:
        return whole_margin(column, mechanisms, confidence) * float(column.step or 1)
    if not FRACTIONS[column.form].by_rows:
        return None
    vectors = _evenly_spread_vectors(column, rows)
    margin = float(estimates_of(column, vectors, mechanisms, confidence).half_widths[0])
    return margin if math.isfinite(margin) else None


def typical_value(column: OutputColumn, rows: int) -> float:
    """Return the value in a cell of so many rows, spread evenly over the bounds; NaN if unknown."""
    if column.form in FRACTIONS:
        if not FRACTIONS[column.form].by_rows:
            return math.nan
        return float(fractions_of(column, _evenly_spread_vectors(column, rows))[0])
    lattice = column.parts[0].aggregate.lattice
    if lattice is None:
        return float(rows)
    return rows * float((lattice.lower + lattice.upper) * lattice.step) / 2


def _evenly_spread_vectors(column: OutputColumn, rows: int) -> Vectors:
    """Return the parts of a column in one cell of so many rows, spread evenly over the bounds."""
    return {
        part.name: np.array([part.aggregate.evenly_spread(rows)], dtype=np.int64)
        for part in column.parts
    }


def sum_margin(column: OutputColumn, mechanisms: Mechanisms, confidence: float) -> int:
    """Return the margin of a sum that is computed from a centred sum, in lattice steps."""
    total, parts = (
        narrow_aggregate(column.parts[0].aggregate, Sum),
        _part_mechanisms(column, mechanisms),
    )
    return math.ceil(sum_width(parts[0], parts[1], total.center, confidence))


def _part_mechanisms(column: OutputColumn, mechanisms: Mechanisms) -> list[Mechanism]:
    # Selections have no width, so only noise that is added has a margin.
    of_parts = [mechanisms[part.name] for part in column.parts]
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


def _mean_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return means with their intervals, in the column's unit."""
    total, moments = _moments(column, vectors)
    sums = vectors[column.parts[0].name].astype(np.float64)
    ends = float(total.least), float(total.most)
    ratios = bounded_ratios(sums, moments.count, parts, confidence, ends)
    center, step = float(total.center), float(total.step)
    ends_and_values = (ratios.values, ratios.lower, ratios.upper)
    values, lower, upper = ((x + center) * step for x in ends_and_values)
    moved = values_at_ends(values, ends_of(column))
    return Estimates(values, lower, upper, ratios.unsure, moved)


def _variances(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return sample variances (n,) in the column's unit."""
    step = float(_moments(column, vectors)[0].step)
    return _variance(column, vectors)[1] * step**2


def _deviations(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return sample standard deviations (n,) in the column's unit."""
    step = float(_moments(column, vectors)[0].step)
    return np.sqrt(_variance(column, vectors)[1]) * step


def _variance(column: OutputColumn, vectors: Vectors) -> tuple[Moments, Floats, Flags]:
    """Return the moments, sample variances in squared steps, and which are at a bound.

    The variances are NaN below two rows. At the bound, they also depend on the number of rows.
    """
    squares = narrow_aggregate(column.parts[0].aggregate, ProductSum)
    total, moments = _moments(column, vectors)
    # A sample variance divides by count - 1, so fewer than two rows have none.
    count = np.where(moments.count >= 2.0, moments.count, math.nan)
    square_sums = vectors[column.parts[0].name].astype(np.float64)
    mean_square = (square_sums / count + squares.offset) * squares.coarse
    raw = mean_square - moments.mean**2
    population = np.clip(raw, 0.0, _widest(total) / 2)
    moved = values_at_ends(population, (0.0, _widest(total) / 2))
    return moments, population * count / (count - 1.0), moved


def _widest(total: Sum) -> float:
    """Return the largest possible sample variance in squared steps: of two rows at the bounds."""
    return (total.upper - total.lower) ** 2 / 2


def _spread_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return variances or standard deviations with their intervals, in the column's unit."""
    squares = narrow_aggregate(column.parts[0].aggregate, ProductSum)
    total = narrow_aggregate(column.parts[1].aggregate, Sum)
    moments, values, moved = _variance(column, vectors)
    ends, step = (float(total.least), float(total.most)), float(total.step) ** 2
    if total.least == total.most:  # all values are the same, in any data
        low, high = np.zeros(values.shape), np.zeros(values.shape)
    else:
        spread = VarianceNoise(parts[0], parts[1], parts[2], squares.coarse, squares.offset, ends)
        noised = [vectors[part.name].astype(np.float64) for part in column.parts]
        low, high = spread.ranges(noised[0], noised[1], noised[2], confidence)
    # The value was moved into its bounds, so the interval is enlarged to contain it; NaN is
    # ignored.
    low, high = np.fmin(low, values), np.fmax(high, values)
    if column.form == STDDEV:
        low, high, values, step = np.sqrt(low), np.sqrt(high), np.sqrt(values), float(total.step)
    # Negated, so that NaN is unsure, too.
    unsure = ~(moments.count - 1.0 > parts[2].half_width(confidence))
    return Estimates(values, low, high, unsure, moved).scaled(step)


def _ratios(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return ratios (n,) of two sums, in the column's unit."""
    over, under = (vectors[part.name].astype(np.float64) for part in column.parts)
    values = np.clip(ratio_or_nan(over, under), *_ends_of_ratio(column))
    return values * float(column.parts[0].step / column.parts[1].step)


def _ends_of_ratio(column: OutputColumn) -> tuple[float, float]:
    """Return the least and the largest ratio that the bounds allow, in steps; infinite if none.

    With positive divisors, the ratio of two sums over the same rows is a weighted mean of the
    ratios of the rows, so it is between the least and the largest of these.
    """
    over, under = (narrow_aggregate(part.aggregate, Sum) for part in column.parts)
    low, high = -math.inf, math.inf
    # A ratio is monotone in each sum then, so its extremes are at the corners.
    if under.least > 0:
        corners = [a / b for a in (over.least, over.most) for b in (under.least, under.most)]
        return min(corners), max(corners)
    # The denominator may be near 0, so only the sign of a ratio is known.
    if under.least == 0:
        low = 0.0 if over.least >= 0 else low
        high = 0.0 if over.most <= 0 else high
    return low, high


def _ratio_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return ratios of two sums with their intervals, in the column's unit.

    An interval without an end is only published for an unsure divisor.
    """
    over, under = (vectors[part.name].astype(np.float64) for part in column.parts)
    positive = narrow_aggregate(column.parts[1].aggregate, Sum).least >= 0
    ends = _ends_of_ratio(column)
    found = bounded_ratios(over, under, parts, confidence, ends, positive=positive)
    unsure = found.unsure | np.isinf(found.lower) | np.isinf(found.upper)
    step = float(column.parts[0].step / column.parts[1].step)
    scaled = replace(found, unsure=unsure).scaled(step)
    return replace(scaled, moved=values_at_ends(scaled.values, ends_of(column)))


def _shares(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return the shares (n,) of counts or sums in the totals of their groups."""
    return _share_estimates(column, vectors, [], math.nan).values


def _share_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return shares with their intervals; without noise, the intervals say nothing."""
    noisy = vectors[column.parts[0].name].astype(np.float64)
    factor = margin_factor(parts[0], confidence) if parts else math.inf
    found = share_estimates(noisy, group_numbers(column.groups, len(noisy)), factor)
    scaled = found.scaled(ends_of(column)[1])
    return replace(scaled, moved=values_at_ends(scaled.values, ends_of(column)))


def _quantile_ratios(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return ratios (n,) of two quantiles, at least 1; NaN if the smaller one is 0."""
    return _quantile_ratio_estimates(column, vectors, [], math.nan).values


def _quantile_ratio_estimates(
    column: OutputColumn, vectors: Vectors, _parts: list[Mechanism], _confidence: float
) -> Estimates:
    """Return ratios of quantiles with intervals of the declared confidence, of 95 % or more."""
    noisy = [vectors[part.name].astype(np.float64) for part in column.parts]
    found = quantile_ratio_estimates(noisy[:3], noisy[3:], ends_of(column)[1])
    return replace(found, moved=values_at_ends(found.values, ends_of(column)))


WHOLE: dict[Form, SumArithmetic] = {SUM: SumArithmetic(_sums, sum_margin)}
FRACTIONS: dict[Form, FractionArithmetic] = {
    MEAN: FractionArithmetic(_means, _mean_estimates, _ends_of_mean),
    RATIO: FractionArithmetic(_ratios, _ratio_estimates, _ends_of_ratio_values, by_rows=False),
    SHARE: FractionArithmetic(_shares, _share_estimates, _ends_of_share, by_rows=False),
    PERCENTAGE: FractionArithmetic(_shares, _share_estimates, _ends_of_share, by_rows=False),
    QUANTILE_RATIO: FractionArithmetic(
        _quantile_ratios, _quantile_ratio_estimates, _ends_of_quantile_ratio, by_rows=False
    ),
    VARIANCE: FractionArithmetic(_variances, _spread_estimates, _ends_of_variance),
    STDDEV: FractionArithmetic(_deviations, _spread_estimates, _ends_of_deviation),
    **WEIGHTED,
    **DESIGN_ERRORS,
    **PAIRS,
    **REGRESSIONS,
}
