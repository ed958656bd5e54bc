"""Gini coefficients from noisy counts of rows by bands, with intervals: post-processing only.

For values x >= 0 with the distribution function F, the Gini coefficient is

    G = (integral of F (1 - F)) / (integral of 1 - F), both over all x >= 0,

also for the n values of a group, where F is their empirical distribution function.

What is known of F is a band L <= F <= U. In the band j of values, F lies between its values at both
edges. Each value at an edge is the share of the rows below it, a part of the total that shares its
noise: if the first k of m cells are below, y - p Y has the variance v (k (1 - p)^2 + (m - k) p^2)
for the true share p, as in `margins`. The J - 1 inner edges are covered together with the
stated confidence (Bonferroni).

The interval of G holds all distributions in this band, wherever values lie within their bands. The
ratio is at least g exactly if the integral of (F - g) (1 - F) is at least 0. For each g this
integral is largest, among all functions between L and U, at the point next to (1 + g) / 2, and
smallest at the end farther from it, because (F - g) (1 - F) is concave in F, and symmetric about
that point. Both choices ascend with x, so they are distribution functions, and the bounds are
exact. They fall with g, so bisection finds the ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.margins import Estimates, margin_factor

STEPS = 44
"""Number of bisections: the ends are exact to 2^-44, and moved outwards by as much."""


def portable_factor(noise: Randomizer, confidence: float) -> float:
    """Return `margin_factor`, rounded up, so that no machine computes other last digits."""
    factor = margin_factor(noise, confidence)
    return math.ceil(factor * 2**20) / 2**20 if math.isfinite(factor) else factor


def gini_estimates(
    counts: Floats, edges: Floats, noise: Randomizer, confidence: float
) -> Estimates:
    """Return the Gini coefficients of groups with their intervals.

    The value is that of values which are spread evenly in each band; negative counts count as 0.

    - `counts`: the noisy counts (groups, bands), with independent noise of the same distribution.
    - `edges`: the edges (bands + 1,) of the bands, ascending from at least 0.
    - `noise`: the noise of each count.
    - `confidence`: the confidence of the intervals.
    """
    groups, bands = counts.shape
    inner = max(bands - 1, 1)
    factor = portable_factor(noise, 1.0 - (1.0 - confidence) / inner)
    totals = _column_sum(counts)
    unsure = ~(totals > factor * math.sqrt(bands))
    widths = np.diff(edges)
    positive = np.maximum(counts, 0.0)
    values = _evenly_spread(positive, widths, float(edges[0]))
    low, high = np.zeros(groups), np.ones(groups)
    if math.isfinite(factor):
        least, most = _band(counts, totals, factor)
        low, high = _ends(least, most, widths, float(edges[0]))
    unsure |= np.isnan(values)
    low = np.where(unsure, 0.0, np.fmin(low, values))
    high = np.where(unsure, 1.0, np.fmax(high, values))
    return Estimates(np.where(unsure, np.nan, values), low, high, unsure, np.zeros_like(unsure))


def _column_sum(numbers: Floats) -> Floats:
    """Return the sums (groups,) over bands, added in the same order on every machine."""
    total = np.zeros(len(numbers))
    for column in numbers.T:
        total = total + column
    return total


def _evenly_spread(counts: Floats, widths: Floats, start: float) -> Floats:
    """Return the Gini coefficients of values that are spread evenly in each band."""
    totals = _column_sum(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        over, under, before = np.zeros(len(counts)), np.full(len(counts), start), 0.0 * totals
        for column, width in zip(counts.T, widths, strict=True):
            after = before + column / totals
            middle = (before + after) / 2
            over = over + width * (middle - (before**2 + before * after + after**2) / 3)
            under = under + width * (1.0 - middle)
            before = after
        found: Floats = np.clip(over / under, 0.0, 1.0)
    return found


def _band(counts: Floats, totals: Floats, factor: float) -> tuple[Floats, Floats]:
    """Return the least and the largest F (groups, bands) within each band."""
    groups, bands = counts.shape
    least, most = np.zeros((groups, bands)), np.ones((groups, bands))
    below = np.zeros(groups)
    a = totals**2 - factor**2 * bands
    with np.errstate(divide="ignore", invalid="ignore"):
        for edge in range(1, bands):
            below = below + counts[:, edge - 1]
            half = below * totals - factor**2 * edge
            root = np.sqrt(np.maximum(half**2 - a * (below**2 - factor**2 * edge), 0.0))
            least[:, edge] = np.clip((half - root) / a, 0.0, 1.0)
            most[:, edge - 1] = np.clip((half + root) / a, 0.0, 1.0)
    least = np.maximum.accumulate(least, axis=1)
    most = np.minimum.accumulate(most[:, ::-1], axis=1)[:, ::-1]
    return least, np.maximum(least, most)


def _ends(least: Floats, most: Floats, widths: Floats, start: float) -> tuple[Floats, Floats]:
    """Return the least and the largest Gini coefficient of distributions in a band."""

    def largest(g: Floats) -> Floats:
        """Return the largest integral of (F - g) (1 - F)."""
        return _integral(
            g, widths, start, lambda j: np.clip((1.0 + g) / 2, least[:, j], most[:, j])
        )

    def smallest(g: Floats) -> Floats:
        """Return the smallest integral of (F - g) (1 - F)."""

        def farther(j: int) -> Floats:
            """Return the end of the band that is farther from (1 + g) / 2."""
            return np.where(least[:, j] + most[:, j] < 1.0 + g, least[:, j], most[:, j])

        return _integral(g, widths, start, farther)

    low = _bisect(lambda g: smallest(g) > 0.0, len(least))[0]
    high = _bisect(lambda g: largest(g) >= 0.0, len(least))[1]
    return low, high


def _integral(g: Floats, widths: Floats, start: float, choice: Callable[[int], Floats]) -> Floats:
    """Return the integral of (F - g) (1 - F), where F is 0 below `start`."""
    total = -g * start
    for j, width in enumerate(widths):
        f = choice(j)
        total = total + width * ((f - g) * (1.0 - f))
    return total


def _bisect(holds: Callable[[Floats], Flags], groups: int) -> tuple[Floats, Floats]:
    """Return two numbers from 0 to 1 between which a condition ceases to hold, for each group."""
    low, high = np.zeros(groups), np.ones(groups)
    for _ in range(STEPS):
        middle = (low + high) / 2
        held = holds(middle)
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return low, high
