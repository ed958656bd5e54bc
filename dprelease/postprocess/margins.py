"""Margins of error of values computed from several noisy vectors.

For a ratio of noisy values S + K over N + M, the difference from the true ratio t = S / N is
exactly (K - t M) / (N + M): for known t its quantiles follow from the noise (Fieller 1954). The
margin covers all t that are compatible with the answer. So the coverage is the declared confidence,
and larger only in cells whose noise is as large as their count. The noise follows from the
manifest; tails are tables of floats whose relative error is below 1e-3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.noise_table import table_of

GRID = 33


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
def pivot_of(over: Mechanism, under: Mechanism, confidence: float, largest: float) -> Pivot:
    """Return the quantiles of |K - t M| for |t| up to `largest`, steps of K over steps of M."""
    grid = np.linspace(-1.0, 1.0, GRID)
    places = largest * grid * np.abs(grid)
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


def sum_width(total: Mechanism, count: Mechanism, center: int, confidence: float) -> float:
    """Return the margin of total + center count in lattice steps, rounded up to whole steps."""
    return math.ceil(_noise_quantile(total, count, -float(center), confidence))


def ratio_margins(
    ratio: Floats, under: Floats, pivot: Pivot, ends: tuple[float, float] | None
) -> Floats:
    """Return margins (n,) of ratios over the noisy `under`; infinity if unbounded.

    `ends`: the range that the true ratio can't leave.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        distance = [
            _one_sided_margins(ratio, np.abs(under), pivot, sign, ends) for sign in (1.0, -1.0)
        ]
    return np.maximum(distance[0], distance[1])


def mean_range(
    mean: Floats, under: Floats, pivot: Pivot, ends: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return the ends (n,) of the means that are compatible with sums over the noisy `under`."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        below, above = (
            _one_sided_margins(mean, np.abs(under), pivot, sign, ends) for sign in (-1.0, 1.0)
        )
    return np.maximum(mean - below, ends[0]), np.minimum(mean + above, ends[1])


def _one_sided_margins(
    ratio: Floats, under: Floats, pivot: Pivot, sign: float, ends: tuple[float, float] | None
) -> Floats:
    """Return the distance on one side to the farthest ratio that is compatible with the answer.

    Widths are linear between places, and so is their excess over `under` times the distance: its
    zero is computed for each cell separately. Infinity if there is no zero.
    """
    distance, nearer = np.zeros_like(ratio), np.zeros_like(ratio)
    excess = pivot.width(ratio)
    for place in (sign * pivot.places[:: int(sign)]).tolist():
        farther_end = np.maximum(place - sign * ratio, 0.0)
        next_excess = pivot.width(ratio + sign * farther_end) - under * farther_end
        crossing = nearer + (farther_end - nearer) * excess / (excess - next_excess)
        farther = np.where(
            next_excess >= 0.0, farther_end, np.where(excess >= 0.0, crossing, distance)
        )
        distance = np.where(farther_end > nearer, farther, distance)
        nearer, excess = farther_end, next_excess
    beyond = np.where(under > pivot.slope, excess / (under - pivot.slope), math.inf)
    distance = np.where(excess >= 0.0, nearer + beyond, distance)
    if ends is not None:  # the end itself may be compatible although something before it is not
        limit = np.abs((ends[1] if sign > 0 else ends[0]) - ratio)
        distance = np.minimum(distance, limit)
        distance = np.where(limit <= pivot.width(ratio + sign * limit) / under, limit, distance)
    return np.where(np.isnan(ratio), math.nan, distance)
