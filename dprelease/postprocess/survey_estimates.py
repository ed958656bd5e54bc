"""Weighted means, and standard errors under a sampling design, with intervals.

The parts are N_r = D_r + K_r with independent, symmetric noise K_r, for r = 1 ... R. With T the sum
of the D_r^2 and V the sum of the variances of the K_r, the number Q, the sum of N_r^2 less V, has
the mean T: the design variance `scale` T is estimated by `scale` Q without bias, apart from the
last digits of the certified upper bounds of the variances. Values that are not clearly above 0 are
left empty, so the other ones are too large on average.

Q - T is 2 D'K + K'K - V. For normal noise, its distribution depends on D only by T, because K'K
and D'K are the same in all directions: Q + V then has a noncentral chi-squared distribution. So the
quantiles of |Q - T| are computed for a grid of T, and the interval consists of all T that are
compatible with Q. For other noise, they also depend on the direction of D. The quantile is the
largest one over directions in which one, two, four ... or all of the parts are equal, with the
largest noise first; with symmetric noise, the signs of the D_r don't matter.
`tests/postprocess/test_design_error.py` shows that intervals contain the truth at least as often as
declared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.estimates import (
    Ends,
    FractionArithmetic,
    Vectors,
    bounded_ratios,
    estimates_in_batches,
    ratio_or_nan,
    values_at_ends,
    values_in_batches,
)
from dprelease.postprocess.margins import Estimates, Pivot
from dprelease.postprocess.noise_table import DRAWS, LEAST_TAIL_DRAWS, shuffled_draws
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.weights import (
    DESIGN_ERROR,
    EFFECTIVE_SIZE,
    WEIGHTED_MEAN,
    weighted_factor,
)
from dprelease.query.measurement import Form, OutputColumn

PLACES, FARTHEST = 65, 64.0
"""Number of grid points of the root of T / V, and the largest one."""

DEVIATIONS = 3.0
"""Standard deviations by which the probability of a quantile of draws is raised."""

HALVINGS = 60


def _steps(column: OutputColumn) -> Floats:
    """Return the size of a step of each part, in the column's unit."""
    return np.array([float(part.step) for part in column.parts])


def _differences(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return the sums of differences (parts, n), in the column's unit."""
    sums = np.array([vectors[part.name] for part in column.parts], dtype=np.float64)
    return sums * _steps(column)[:, None]


def _values(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return design errors (n,) of sums without noise, in the column's unit."""
    squares = np.sum(_differences(column, vectors) ** 2, axis=0)
    errors: Floats = np.sqrt(float(column.scale) * squares)
    return errors


def _variances(parts: Sequence[Mechanism]) -> Floats:
    """Return the variances of the noise of all parts, in steps."""
    moments = [one.variance_bound_and_mean for one in parts if one.is_symmetric]
    found = np.array([float(one[0]) for one in moments if one is not None])
    if len(found) < len(parts):
        raise TypeError("some noise has no certified variance, or is not symmetric")
    return found


def _estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return design errors with their intervals, in the column's unit.

    There is no value where T = 0 is compatible with Q.
    """
    steps = _steps(column)
    total = float(np.sum(_variances(parts) * steps**2))
    ratio = np.sum(_differences(column, vectors) ** 2, axis=0) / total - 1.0
    pivot = _quantiles(tuple(parts), tuple(steps.tolist()), confidence)
    unit = math.sqrt(float(column.scale) * total)
    values = unit * np.sqrt(np.where(ratio > 0.0, ratio, math.nan))
    lower, upper = (unit * end for end in _compatible_roots(ratio, pivot))
    unsure = ~(lower > 0.0)
    return Estimates(values, lower, upper, unsure, np.zeros_like(unsure))


def _compatible_roots(ratio: Floats, pivot: Pivot) -> tuple[Floats, Floats]:
    """Return the least and the largest root t of T / V (n,) with |Q / V - t^2| <= width(t).

    `ratio` is Q / V. If no t is compatible, the interval is from 0 to the t nearest to it.
    """
    places = pivot.places
    nearest = float(places[np.argmin(places**2 - pivot.widths)])
    reach = np.maximum(ratio, 0.0) + float(pivot.widths[0])
    farthest = pivot.slope + np.sqrt(reach) + 1.0 + nearest
    low, far = np.zeros_like(ratio), farthest.copy()
    near, high = np.full_like(ratio, nearest), farthest
    for _ in range(HALVINGS):
        middle = (low + far) / 2
        is_below = middle**2 + pivot.width(middle) < ratio
        low, far = np.where(is_below, middle, low), np.where(is_below, far, middle)
        middle = (near + high) / 2
        fits = middle**2 - pivot.width(middle) <= ratio
        near, high = np.where(fits, middle, near), np.where(fits, high, middle)
    return np.where(ratio > pivot.widths[0], low, 0.0), high


@lru_cache(maxsize=64)
def _quantiles(parts: tuple[Mechanism, ...], steps: tuple[float, ...], confidence: float) -> Pivot:
    """Return quantiles of |Q - T| / V, by roots of T / V."""
    variances = _variances(parts)
    sizes = np.array(steps) / math.sqrt(float(np.sum(variances * np.array(steps) ** 2)))
    places = np.sinh(np.linspace(0.0, math.asinh(FARTHEST), PLACES))
    miss = 1.0 - confidence
    if miss * DRAWS < LEAST_TAIL_DRAWS:  # each part separately, with its share of the probability
        widths = np.array([float(one.half_width(1.0 - miss / len(parts))) for one in parts])
        longest = float(np.sum((widths * sizes) ** 2))
        return Pivot(places, 2.0 * places * math.sqrt(longest) + max(longest - 1.0, 1.0))
    order = np.argsort(-np.sqrt(variances) * sizes, kind="stable")
    noise = (shuffled_draws(parts, DRAWS) * sizes[:, None])[order]
    squares = np.sum(noise**2, axis=0) - 1.0
    raised = confidence + DEVIATIONS * math.sqrt(confidence * miss / DRAWS)
    position = math.ceil(raised * DRAWS) - 1
    widths = np.zeros(PLACES)
    for number in _numbers_of_equal_parts(len(parts)):
        along = np.sum(noise[:number], axis=0) / math.sqrt(number)
        distances = np.abs(2.0 * places[:, None] * along + squares)
        quantiles = np.partition(distances, position, axis=1)[:, position]
        widths = np.maximum(widths, quantiles)
    return Pivot(places, np.maximum.accumulate(widths))


def _numbers_of_equal_parts(parts: int) -> list[int]:
    """Return the powers of two below a number of parts, and the number itself."""
    return [*(2**i for i in range(parts.bit_length()) if 2**i < parts), parts]


def _ends(_column: OutputColumn) -> Ends:
    """Return the bounds of design errors."""
    return 0.0, math.inf


DESIGN_ERRORS: dict[Form, FractionArithmetic] = {
    DESIGN_ERROR: FractionArithmetic(
        values_in_batches(_values), estimates_in_batches(_estimates), _ends, by_rows=False
    )
}


def _noisy_sums(column: OutputColumn, vectors: Vectors) -> tuple[Floats, Floats]:
    """Return the noisy sums (n,) of products and of weights, in their steps."""
    over, under = (vectors[part.name].astype(np.float64) for part in column.parts)
    return over, under


def _coarse(column: OutputColumn) -> int:
    """Return the size of one step of products, as a number of products of steps."""
    return narrow_aggregate(column.parts[0].aggregate, ProductSum).coarse


def _ends_in_steps(column: OutputColumn) -> Ends:
    """Return the bounds of x - center, in steps of products over steps of weights."""
    value, coarse = weighted_factor(column), _coarse(column)
    return value.least / coarse, value.most / coarse


def _in_unit(column: OutputColumn, means: Floats) -> Floats:
    """Return means of x - center as means of x in the column's unit."""
    value = weighted_factor(column)
    return (means * _coarse(column) + value.center) * float(value.step)


def _ends_of_means(column: OutputColumn) -> Ends:
    """Return the bounds of weighted means: those of the column."""
    value = weighted_factor(column)
    return value.lower * float(value.step), value.upper * float(value.step)


def _means(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return weighted means (n,) in the column's unit; NaN if the noisy divisor is 0 or less."""
    over, under = _noisy_sums(column, vectors)
    means = ratio_or_nan(over, np.maximum(under, 0.0))
    return _in_unit(column, np.clip(means, *_ends_in_steps(column)))


def _mean_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return weighted means with their intervals, in the column's unit."""
    over, under = _noisy_sums(column, vectors)
    found = bounded_ratios(over, under, parts, confidence, _ends_in_steps(column))
    values, lower, upper = (
        _in_unit(column, means) for means in (found.values, found.lower, found.upper)
    )
    moved = values_at_ends(values, _ends_of_means(column))
    return Estimates(values, lower, upper, found.unsure, moved)


def _sizes(column: OutputColumn, vectors: Vectors) -> Floats:
    """Return effective sizes (n,); NaN if a noisy sum is 0 or less.

    The square of a weight w is w times a number from the smallest weight above 0 to the largest.
    So the size lies between the sum of weights over the largest and over the smallest of these.
    """
    squares, weights = (np.maximum(sums, 0.0) for sums in _noisy_sums(column, vectors))
    sizes = ratio_or_nan(ratio_or_nan(weights * weights, squares), np.array(float(_coarse(column))))
    smallest, largest = _weights_in_steps(column)
    clipped: Floats = np.clip(sizes, weights / largest, weights / smallest)
    return np.where(weights > 0.0, clipped, math.nan)


def _weights_in_steps(column: OutputColumn) -> tuple[int, int]:
    """Return the smallest weight above 0, and the largest weight, in steps."""
    weight = narrow_aggregate(column.parts[1].aggregate, Sum)
    return max(weight.lower, 1), max(weight.upper, 1)


def _size_estimates(
    column: OutputColumn, vectors: Vectors, parts: list[Mechanism], confidence: float
) -> Estimates:
    """Return effective sizes with their intervals.

    Both sums lie within their margins at half of the miss probability each, so the size lies
    between the least and the largest that such sums allow.
    """
    squares, weights = _noisy_sums(column, vectors)
    half = 1.0 - (1.0 - confidence) / 2
    reach = [float(mechanism.half_width(half)) for mechanism in parts]
    least, largest = np.maximum(weights - reach[1], 0.0), np.maximum(weights + reach[1], 0.0)
    coarse, (smallest_weight, largest_weight) = _coarse(column), _weights_in_steps(column)
    most_squares = np.maximum(squares + reach[0], 0.5) * coarse
    least_squares = np.maximum(squares - reach[0], 0.0) * coarse
    lower = np.maximum(least**2 / most_squares, least / largest_weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = np.where(least_squares > 0.0, largest**2 / least_squares, math.inf)
    upper = np.maximum(np.minimum(upper, largest / smallest_weight), lower)
    values = _sizes(column, vectors)
    unsure = ~(weights > parts[1].half_width(confidence))
    unsure |= ~(squares > parts[0].half_width(confidence)) | np.isnan(values)
    lower, upper = np.fmin(lower, values), np.fmax(upper, values)
    return Estimates(values, lower, upper, unsure, np.zeros_like(unsure))


def _ends_of_sizes(_column: OutputColumn) -> Ends:
    """Return the bounds of effective sizes."""
    return 0.0, math.inf


WEIGHTED: dict[Form, FractionArithmetic] = {
    WEIGHTED_MEAN: FractionArithmetic(_means, _mean_estimates, _ends_of_means),
    EFFECTIVE_SIZE: FractionArithmetic(_sizes, _size_estimates, _ends_of_sizes),
}
