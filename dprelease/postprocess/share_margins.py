"""Shares of noisy counts or sums in their noisy total, with intervals: post-processing only.

The total Y of m cells is the sum of their noisy values, so part and total share noise. For the true
share p = n / N of a cell with the noisy value y = n + K, and independent noise K_j in each cell,

    y - p Y = (1 - p) K - p (sum of the noises of the other cells),

whose variance is v (1 - 2 p + p^2 m) for noise of variance v. The interval holds all p with
|y - p Y| <= c sqrt(1 - 2 p + p^2 m), which are the p between the roots of a quadratic equation
(Fieller 1954, with the covariance of part and total). The factor c is that of `margin_factor`.

The set is bounded exactly if Y > c sqrt(m), which is the margin of the total. Otherwise the noise
alone could explain any share, and no share is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats, Integers
from dprelease.postprocess.margins import Estimates
from dprelease.query.measurement import GroupKey


def margin_factor(noise: Randomizer, confidence: float = 0.95) -> float:
    """Return c such that c |w| is a margin of a sum of independent noises with weights w.

    |w| is the root of the sum of the squared weights. A single noise has the margin
    `half_width`, and a sum of many is normal. For noises with heavier tails than normal ones, the
    first factor is larger, and for those with lighter tails the second. Half a step is added,
    because a weighted sum of few noises has few values, and small noise covers too rarely without
    it. The result is infinite for noise without a variance, and for noise with a bias, which would
    add up.
    """
    if noise.mean:
        return math.inf
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    width = max(float(noise.half_width(confidence)), normal * noise.standard_deviation)
    return width + 0.5 if width else 0.0


def group_numbers(keys: Sequence[GroupKey], cells: int) -> Integers:
    """Return the number of the group of each cell (cells,): those with equal values of all keys."""
    places, numbers = np.arange(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    for key in keys:
        numbers = numbers * key.size + places // key.stride % key.size
    return numbers


def share_estimates(parts: Floats, groups: Integers, factor: float) -> Estimates:
    """Return the shares of noisy values in the totals of their groups, with their intervals.

    A negative value counts as 0 in the shares, which are from 0 to 1 and add up to 1 in each group.

    - `parts`: the noisy values (n,), whose noises are independent and have the same distribution.
    - `groups`: the number (n,) of the group of each value.
    - `factor`: the factor of `margin_factor`, in the unit of the values.
    """
    _, group = np.unique(groups, return_inverse=True)
    cells = np.bincount(group)[group].astype(np.float64) if len(group) else np.zeros(0)
    totals = _sums_by_group(parts, group)
    positive = np.maximum(parts, 0.0)
    positive_totals = _sums_by_group(positive, group)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = positive / positive_totals
        if math.isfinite(factor):
            unsure = ~(totals > factor * np.sqrt(cells))
            lower, upper = _compatible_shares(parts, totals, cells, factor)
        else:
            unsure = ~(totals > 0.0)
            lower, upper = np.zeros(parts.shape), np.ones(parts.shape)
    unsure |= ~(positive_totals > 0.0)
    lower = np.where(unsure, 0.0, np.clip(np.fmin(lower, values), 0.0, 1.0))
    upper = np.where(unsure, 1.0, np.clip(np.fmax(upper, values), 0.0, 1.0))
    values = np.where(unsure, math.nan, values)
    return Estimates(values, lower, upper, unsure, np.zeros_like(unsure))


def _sums_by_group(values: Floats, group: Integers) -> Floats:
    """Return for each value (n,) the sum of its group."""
    sums = np.bincount(group, values)[group] if len(group) else np.zeros(0)
    return sums.astype(np.float64)


def _compatible_shares(
    parts: Floats, totals: Floats, cells: Floats, factor: float
) -> tuple[Floats, Floats]:
    """Return the least and the largest p (n,) with (y - p Y)^2 <= c^2 (1 - 2 p + p^2 m)."""
    square = factor**2
    a, half = totals**2 - square * cells, parts * totals - square
    root = np.sqrt(np.maximum(half**2 - a * (parts**2 - square), 0.0))
    return (half - root) / a, (half + root) / a
