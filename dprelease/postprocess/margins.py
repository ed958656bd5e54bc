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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.noise_table import table_of

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
        outside = k.beyond(w + shift) + 1.0 - k.beyond(shift - w)
        return bool(outside @ weights > miss)

    low, high = 0.0, max(1.0, float(k.places[-1]))
    while too_narrow(high):
        low, high = high, 2 * high
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
