"""Intervals of values computed from several noisy vectors.

For a ratio of noisy values S + K over N + M and the true ratio t = S / N, the difference
(S + K) - t (N + M) is exactly K - t M: for known t its quantiles follow from the noise (Fieller
1954). The interval covers all t that are compatible with the answer, for any answer. So the
coverage is the declared confidence, whatever the size of a cell; it is larger where the interval
reaches the bounds. The noise follows from the manifest; tails are tables of floats whose relative
error is below 1e-3.

The set of compatible ratios is bounded exactly if the noisy divisor is farther from 0 than its own
margin at the same confidence: for large t, |K - t M| is t |M|. Only then a ratio is published; at
95 %, a divisor of 0 or less passes in at most 2.5 % of cells if its noise is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.noise_table import table_of
from dprelease.query.measurement import GroupKey

PLACES = 49
FARTHEST = 64.0
"""Number of ratios with computed quantiles, and the largest one: the scale of K over that of M."""


@dataclass(frozen=True)
class Estimates:
    """Fractions (n,) with their intervals, in the unit of their column."""

    values: Floats
    """NaN where the noisy divisor is not above 0."""
    lower: Floats
    upper: Floats
    """Ends of the intervals, at worst the bounds; infinite if there is no bound."""
    unsure: Flags
    """Whether the noisy divisor is not clearly above 0, so that no value is published."""
    moved: Flags
    """Whether the value is at a bound of its column to which values are moved."""

    def scaled(self, step: float) -> Estimates:
        """Return the estimates in a unit of which one step has this size."""
        values, lower, upper = (x * step for x in (self.values, self.lower, self.upper))
        return Estimates(values, lower, upper, self.unsure, self.moved)

    @property
    def half_widths(self) -> Floats:
        """Return the larger distance (n,) of each value to an end; NaN without a value."""
        with np.errstate(invalid="ignore"):
            return np.maximum(self.values - self.lower, self.upper - self.values)


@dataclass(frozen=True, eq=False)
class Pivot:
    """Quantiles of |K - t M|: `widths[i]` at the ratio t = `places[i]`; places ascend."""

    places: Floats
    widths: Floats

    @property
    def slope(self) -> float:
        """Return the largest slope of widths above the last place."""
        distance = float(self.places[-1])
        return float(self.widths.max()) / distance if distance else 0.0

    def width(self, t: Floats) -> Floats:
        """Return the quantiles at t, extrapolated with `slope` above the last place."""
        widths: Floats = np.interp(t, self.places, self.widths)
        # Beyond the table, widths grow at most in proportion to t.
        widths += np.maximum(np.abs(t) - float(self.places[-1]), 0.0) * self.slope
        return widths


@lru_cache(maxsize=256)
def pivot_of(over: Mechanism, under: Mechanism, confidence: float) -> Pivot:
    """Return the quantiles of |K - t M|, steps of K over steps of M.

    The places are denser where K and M matter alike. The quantiles are convex between them, so
    linear interpolation is on the safe side.
    """
    scale = max(over.half_width(confidence), 1) / max(under.half_width(confidence), 1)
    end = math.asinh(FARTHEST)
    places = float(scale) * np.sinh(np.linspace(-end, end, PLACES))
    # The middle of the even spacing is 0 up to rounding, and `_noise_quantile` needs exactly 0.
    places[PLACES // 2] = 0.0
    widths = [_noise_quantile(over, under, t, confidence) for t in places.tolist()]
    return Pivot(places, np.array(widths))


def _noise_quantile(over: Mechanism, under: Mechanism, t: float, confidence: float) -> float:
    """Return the least w with P(|K - t M| > w) <= 1 - confidence."""
    k, m = table_of(over), table_of(under)
    shift, miss = t * m.nodes, 1.0 - confidence
    if t == 0.0:
        shift, weights = np.zeros(1), np.ones(1)
    else:
        weights = m.weights

    def too_narrow(w: float) -> bool:
        """Return whether |K - t M| exceeds w with a probability above 1 - confidence."""
        outside = k.probability_above(w + shift) + 1.0 - k.probability_above(shift - w)
        return bool(outside @ weights > miss)

    low, high = 0.0, max(1.0, float(k.places[-1]))
    while too_narrow(high):
        low, high = high, 2 * high
        # No noise is so wide; the table of tails says that no width suffices.
        if high > 2.0**80:
            return math.inf
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (middle, high) if too_narrow(middle) else (low, middle)
    return high


def difference_width(one: Mechanism, other: Mechanism, scale: float, confidence: float) -> float:
    """Return the margin of one - scale other, in steps of the first."""
    return _noise_quantile(one, other, scale, confidence)


def sum_width(total: Mechanism, count: Mechanism, center: int, confidence: float) -> float:
    """Return the margin of total + center count in lattice steps, rounded up to whole steps."""
    return math.ceil(_noise_quantile(total, count, -float(center), confidence))


def compatible_ratios(
    over: Floats, under: Floats, pivot: Pivot, ends: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return the least and the largest t (n,) with |over - t under| <= width(t), within `ends`.

    Widths are linear between places, so that the compatible part of each piece between two places
    is computed exactly. If there are several parts, what is between them counts as compatible. If
    no t is compatible, the result is `ends`.

    - `over`, `under`: noisy values (n,) in steps; `under` may be 0 or negative.
    - `ends`: the range that the true ratio can't leave; an end may be infinite.
    """
    low, high = np.full(over.shape, math.inf), np.full(over.shape, -math.inf)
    for piece in _pieces(pivot, ends):
        first, last = piece.compatible_part(over, under)
        one, other = piece.start + piece.direction * first, piece.start + piece.direction * last
        found = (first <= last) & np.isfinite(first)
        low = np.where(found, np.minimum(low, np.minimum(one, other)), low)
        high = np.where(found, np.maximum(high, np.maximum(one, other)), high)
    # The noisy values contradict every ratio within the bounds, so nothing is excluded.
    nothing = low > high
    return np.where(nothing, ends[0], low), np.where(nothing, ends[1], high)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The ratios start + direction * v for v from 0 to `length`, where widths are linear in v."""

    start: float
    direction: float
    length: float
    width: float
    slope: float

    def compatible_part(self, over: Floats, under: Floats) -> tuple[Floats, Floats]:
        """Return the first and the last v (n,) that are compatible; the first is larger if none."""
        rest, change = over - self.start * under, -self.direction * under
        above = self._not_above_zero(rest - self.width, change - self.slope)
        below = self._not_above_zero(-rest - self.width, -change - self.slope)
        return np.maximum(above[0], below[0]), np.minimum(above[1], below[1])

    def _not_above_zero(self, start: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """Return the first and the last v (n,) with start + slope v <= 0, as far as `length`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            root = -start / slope
        inside = start <= 0.0
        first = np.where(
            inside, 0.0, np.where((slope < 0.0) & (root <= self.length), root, math.inf)
        )
        last = np.where(inside & (slope > 0.0), np.minimum(root, self.length), self.length)
        return first, last


def _pieces(pivot: Pivot, ends: tuple[float, float]) -> Iterator[_Piece]:
    """Yield the pieces of a range of ratios, on each of which the widths are linear."""
    inner = pivot.places[(pivot.places > ends[0]) & (pivot.places < ends[1])].tolist()
    places = [*(end for end in ends[:1] if math.isfinite(end)), *inner]
    places += [end for end in ends[1:] if math.isfinite(end)]
    widths = pivot.width(np.array(places)).tolist()
    for (start, width), (end, next_width) in pairwise(zip(places, widths, strict=True)):
        span = end - start
        yield _Piece(start, 1.0, span, width, (next_width - width) / span if span else 0.0)
    if ends[1] == math.inf:
        yield _Piece(places[-1], 1.0, math.inf, widths[-1], pivot.slope)
    if ends[0] == -math.inf:
        yield _Piece(places[0], -1.0, math.inf, widths[0], pivot.slope)


# Shares of noisy counts or sums in their noisy total, with intervals: post-processing only.
#
# The total Y of m cells is the sum of their noisy values, so part and total share noise. For the
# true share p = n / N of a cell with the noisy value y = n + K, and independent noise K_j in each
# cell,
#
#     y - p Y = (1 - p) K - p (sum of the noises of the other cells),
#
# whose variance is v (1 - 2 p + p^2 m) for noise of variance v. The interval holds all p with |y -
# p Y| <= c sqrt(1 - 2 p + p^2 m), which are the p between the roots of a quadratic equation
# (Fieller 1954, with the covariance of part and total). The factor c is that of `margin_factor`.
#
# The set is bounded exactly if Y > c sqrt(m), which is the margin of the total. Otherwise the noise
# alone could explain any share, and no share is published.


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
