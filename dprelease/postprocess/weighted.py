"""Weighted means and effective sample sizes, computed from noisy sums of weights and products."""

from __future__ import annotations

import math

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.estimates import (
    Ends,
    FractionArithmetic,
    Vectors,
    bounded_ratios,
    ratio_or_nan,
    values_at_ends,
)
from dprelease.postprocess.margins import Estimates
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.weights import EFFECTIVE_SIZE, WEIGHTED_MEAN, weighted_factor
from dprelease.query.measurement import Form, OutputColumn


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
