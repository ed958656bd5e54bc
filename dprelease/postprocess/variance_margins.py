"""Variances that are compatible with noised squares, sums and counts.

With t the true mean and v the true sample variance of N rows, Q - 2 t S + t^2 N = (N - 1) v for the
true sums Q of squares and S. So of the noised ones, q, s and n with noise K, L and M,

    q - 2 t s + t^2 n - v (n - 1) = K - 2 t L + (t^2 - v) M   and   s - t n = L - t M,

exactly: for known t and v the distributions of both right sides are known, for any N. The
compatible pairs (t, v) are those for which the second lies within its quantile at a confidence
close to one, and the first within its quantile at the rest of the confidence. The truth is among
them with at least the declared confidence. This is Fieller's method for ratios, extended to two
unknowns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.margins import compatible_ratios, pivot_of
from dprelease.postprocess.noise_table import spread_draws

MEAN_MISS_SHARE = 1 / 20
"""Fraction of the miss probability that is spent on the mean.

A larger one makes intervals of small cells narrower and those of large cells a little wider.
"""

DRAWS = 2**16
LEAST_TAIL_DRAWS = 64
"""Least number of draws above a quantile; with fewer, bounds are added up instead."""

TABLED_MEANS, TABLED_FACTORS = 9, 33
MEANS, VARIANCES = 9, 33
"""Numbers of means tried for each cell, and of variances between which widths are interpolated."""

BATCH_CELLS = 256
"""Number of cells per batch, to bound memory."""


@dataclass(frozen=True)
class VarianceNoise:
    """The noise of squares, sums and counts, in steps of the column (squares: their square)."""

    squares: Mechanism
    total: Mechanism
    count: Mechanism
    coarse: int
    offset: int
    ends: tuple[float, float]
    """The bounds of x - center, in steps."""

    @property
    def widest(self) -> float:
        """Return the largest possible sample variance, which two rows at the bounds have."""
        return (self.ends[1] - self.ends[0]) ** 2 / 2

    def ranges(
        self, squares: Floats, sums: Floats, counts: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        """Return least and largest (n,) compatible variances.

        They are all possible variances where the count is below 2, or where none is compatible.
        """
        low, high = np.zeros(counts.shape), np.full(counts.shape, self.widest)
        two_rows = np.flatnonzero(counts >= 2)
        miss = 1.0 - confidence
        pivot = pivot_of(self.total, self.count, 1.0 - miss * MEAN_MISS_SHARE)
        widths = width_table(self, 1.0 - miss * (1.0 - MEAN_MISS_SHARE))
        for start in range(0, len(two_rows), BATCH_CELLS):
            cells = two_rows[start : start + BATCH_CELLS]
            n, s = counts[cells], sums[cells]
            q = (squares[cells] + self.offset * n) * self.coarse
            mean = np.clip(s / n, *self.ends)
            first, last = compatible_ratios(mean * n, n, pivot, self.ends)
            part = np.linspace(0.0, 1.0, MEANS)
            t = np.concatenate((first[:, None] + (last - first)[:, None] * part, mean[:, None]), 1)
            point = q[:, None] - 2 * t * s[:, None] + t * t * n[:, None]
            least, largest = self._compatible(t, point, n, widths)
            found = least <= largest
            low[cells[found]], high[cells[found]] = least[found], largest[found]
        return low, high

    def _compatible(
        self, t: Floats, point: Floats, n: Floats, widths: WidthTable
    ) -> tuple[Floats, Floats]:
        """Return least and largest v with |point - v (n - 1)| <= width(t, v), for any of the t.

        The width is interpolated linearly between two tried variances. If there are several
        intervals, the range between them counts as compatible.
        """
        v = np.linspace(0.0, self.widest, VARIANCES)
        middle = v * (n[:, None, None] - 1.0) - point[:, :, None]
        width = widths.at(t, v, float(self.coarse * self.offset))
        with np.errstate(divide="ignore", invalid="ignore"):
            last = _last_below_zero(v, middle - width)
            first = self.widest - _last_below_zero(v, -(middle + width)[:, :, ::-1])
        low = np.clip(first, 0.0, self.widest).min(axis=1)
        return low, np.clip(last, 0.0, self.widest).max(axis=1)


def _last_below_zero(v: Floats, values: Floats) -> Floats:
    """Return where (..., places) piecewise linear values are last <= 0; minus infinity if never."""
    size = len(v)
    last = size - 1 - np.argmax((values <= 0.0)[..., ::-1], axis=-1)[..., None]
    here = np.take_along_axis(values, last, -1)
    there = np.take_along_axis(values, np.minimum(last + 1, size - 1), -1)
    passed = np.where(there > here, -here / (there - here), 0.0)
    crossings: Floats = np.where(here <= 0.0, v[last] + passed * (v[1] - v[0]), -math.inf)[..., 0]
    return crossings


@dataclass(frozen=True, eq=False)
class WidthTable:
    """Quantiles of |coarse K - 2 t L + f M|.

    `table[i, j]`: the quantile at t = `means[i]` and f = `factors[j]`, divided by the root of the
    sum of squares of `sizes` times 1, t and f. This quotient is nearly the same everywhere, and
    constant for normal noise.
    """

    sizes: tuple[float, float, float]
    means: Floats
    factors: Floats
    table: Floats

    def at(self, t: Floats, v: Floats, offset: float) -> Floats:
        """Return (..., v) quantiles for means (...) and variances; K of squares less `offset`."""
        t = t[..., None]
        factor = t * t + offset - v
        i, x = _node_and_fraction(t, self.means)
        j, y = _node_and_fraction(factor, self.factors)
        below = self.table[i, j] * (1.0 - y) + self.table[i, j + 1] * y
        above = self.table[i + 1, j] * (1.0 - y) + self.table[i + 1, j + 1] * y
        quantiles: Floats = (below * (1.0 - x) + above * x) * _noise_size(self.sizes, t, factor)
        return quantiles


def _noise_size(sizes: tuple[float, float, float], t: Floats, factor: Floats) -> Floats:
    """Return the root of the sum of squares of `sizes` times 1, t and the factor."""
    size: Floats = np.sqrt(sizes[0] ** 2 + (sizes[1] * t) ** 2 + (sizes[2] * factor) ** 2)
    return size


def _node_and_fraction(x: Floats, nodes: Floats) -> tuple[np.ndarray, Floats]:
    """Return the node before x, and how far x lies on the way to the next node."""
    position = np.clip((x - nodes[0]) / (nodes[1] - nodes[0]), 0.0, len(nodes) - 1.0)
    node = np.minimum(position.astype(np.int64), len(nodes) - 2)
    return node, position - node


@lru_cache(maxsize=64)
def width_table(noise: VarianceNoise, confidence: float) -> WidthTable:
    """Return the quantiles for all means and variances that the bounds allow."""
    offset = float(noise.coarse * noise.offset)
    largest = max(map(abs, noise.ends)) ** 2
    means = np.linspace(*noise.ends, TABLED_MEANS)
    factors = np.linspace(offset - noise.widest, offset + largest, TABLED_FACTORS)
    miss = 1.0 - confidence
    mechanisms = (noise.squares, noise.total, noise.count)
    half_widths = [
        max(1.0, float(mechanism.half_width(1.0 - miss / 3))) for mechanism in mechanisms
    ]
    sizes = (noise.coarse * half_widths[0], 2 * half_widths[1], half_widths[2])
    if miss * DRAWS < LEAST_TAIL_DRAWS:  # each separately, with a third of the miss probability
        table = sizes[0] + sizes[1] * np.abs(means)[:, None] + sizes[2] * np.abs(factors)
    else:
        table = _quantiles_from_draws(noise, means, factors, confidence)
    return WidthTable(sizes, means, factors, table / _noise_size(sizes, means[:, None], factors))


def _quantiles_from_draws(
    noise: VarianceNoise, means: Floats, factors: Floats, confidence: float
) -> Floats:
    """Return the quantiles (means, factors) of evenly spread draws."""
    squares, sums, counts = spread_draws((noise.squares, noise.total, noise.count), DRAWS)
    position = math.ceil(confidence * DRAWS) - 1
    table = np.empty((len(means), len(factors)))
    for i, t in enumerate(means.tolist()):
        error = np.abs(noise.coarse * squares - 2 * t * sums + factors[:, None] * counts)
        table[i] = np.partition(error, position, axis=1)[:, position]
    return table
