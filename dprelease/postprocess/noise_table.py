"""Noise distributions as tables of floats, for margins of error only, not for guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats

OCTAVES = 34
"""Number of halvings of a tail in the table: tails below 2**-35 have no weight."""

STRATA = 24
"""Number of nodes for every factor of two of the tail."""


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """The distribution of noise K: `above[i]` is P(K > places[i]), and `places` ascend.

    `nodes` and `weights` are a discrete approximation of the distribution.

    `above` is interpolated linearly between places, and the probability is placed in the middle.
    """

    places: Floats
    above: Floats
    nodes: Floats
    weights: Floats

    def probability_above(self, x: Floats) -> Floats:
        """Return P(K > x)."""
        return np.interp(x, self.places, self.above, left=1.0, right=0.0)


@lru_cache(maxsize=64)
def table_of(mechanism: Mechanism) -> NoiseTable:
    """Return the table of a mechanism's noise."""
    tails = 2.0 ** -(1.0 + np.arange(OCTAVES * STRATA + 1) / STRATA)  # 1/2 and below
    upper, lower = _quantiles(mechanism, tails, True), _quantiles(mechanism, tails, False)
    places = np.concatenate((lower[::-1] - 0.5, upper + 0.5))
    above = np.concatenate((1.0 - tails[::-1], tails))
    places, first, times = np.unique(places, return_index=True, return_counts=True)
    above = above[first]
    for i in np.flatnonzero(times > 1).tolist():  # steps are coarser than nodes there
        above[i] = float(mechanism.tail(int(places[i] + 0.5), True).mid())
    # Probabilities of equal places were replaced, and must still fall.
    above = np.minimum.accumulate(above)
    weights = -np.diff(above)
    nodes = (places[1:] + places[:-1]) / 2
    return NoiseTable(places, above, nodes, weights / weights.sum())


def _quantiles(mechanism: Mechanism, tails: Floats, upper: bool) -> Floats:
    """Return k such that P(K > k), or P(K < k) if not `upper`, is about `tails`."""
    quantiles, _ = mechanism.integer_quantile(tails.copy(), upper)
    return quantiles


def spread_draws(mechanisms: tuple[Mechanism, ...], n: int) -> tuple[Floats, ...]:
    """Return (n,) evenly spread joint draws of each noise: a rank-one lattice, not random.

    The multipliers are powers of the root of x^(d+1) = x + 1 (Roberts 2018, the R_d sequence).
    """
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (len(mechanisms) + 1))
    draws_by_mechanism = []
    for i, mechanism in enumerate(mechanisms):
        u = (0.5 + np.arange(1, n + 1) * root ** -(i + 1.0)) % 1.0
        # A u of exactly 0 has no quantile, and farther ones have no weight.
        u = np.clip(u, 2.0**-40, 1.0 - 2.0**-40)
        tails, upper = np.minimum(u, 1.0 - u), u < 0.5
        draws = np.where(
            upper, _quantiles(mechanism, tails, True), _quantiles(mechanism, tails, False)
        )
        draws_by_mechanism.append(draws)
    return tuple(draws_by_mechanism)


def shuffled_draws(mechanisms: tuple[Mechanism, ...], n: int) -> Floats:
    """Return (parts, n) joint draws of each noise: its n quantiles, each in a different order.

    The orders are those of hashed numbers (Steele, Lea, Flood 2014, SplitMix64), so that they are
    the same on all machines. They suit many parts, for which the draws of `spread_draws` are
    related.
    """
    u = (0.5 + np.arange(n)) / n
    tails, upper = np.minimum(u, 1.0 - u), u > 0.5
    quantiles = {
        one: np.where(upper, _quantiles(one, tails, True), _quantiles(one, tails, False))
        for one in set(mechanisms)
    }
    numbers = np.arange(len(mechanisms) * n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    orders = np.argsort((numbers ^ (numbers >> np.uint64(31))).reshape(-1, n), axis=1)
    return np.stack([quantiles[one][order] for one, order in zip(mechanisms, orders, strict=True)])


# Quantiles of linear combinations of independent noise, bounded for all coefficients at once.

DRAWS = 2**14
LEAST_TAIL_DRAWS = 64
"""Least number of draws above a quantile; with fewer, half widths are added up instead."""


@dataclass(frozen=True, eq=False)
class NoiseWidth:
    """An upper bound of quantiles of |sum of c_i K_i|: `factor` times the root of the sum of
    squares of c_i `sizes[i]`.

    The sizes are the same quantile of each |K_i|. For normal noise the bound is the quantile, with
    the factor 1. For other noise the quotient of the quantile and this root lies between its value
    for a single K_i, which is 1, and its values for equal parts of several; the factor is the
    largest of these.
    """

    sizes: Floats
    factor: float

    def of(self, coefficients: Floats) -> Floats:
        """Return the bounds (n,) for coefficients (parts, n)."""
        widths: Floats = self.factor * np.sqrt(
            np.sum((coefficients * self.sizes[:, None]) ** 2, axis=0)
        )
        return widths


@lru_cache(maxsize=64)
def noise_width(mechanisms: tuple[Mechanism, ...], confidence: float) -> NoiseWidth:
    """Return the bound of quantiles at a confidence."""
    miss, parts = 1.0 - confidence, len(mechanisms)
    if miss * DRAWS < LEAST_TAIL_DRAWS:  # each separately, with its part of the miss probability
        widths = [max(1.0, float(one.half_width(1.0 - miss / parts))) for one in mechanisms]
        return NoiseWidth(np.array(widths), math.sqrt(parts))
    sizes = np.array([max(1.0, float(one.half_width(confidence))) for one in mechanisms])
    sums = np.cumsum(np.array(spread_draws(mechanisms, DRAWS)) / sizes[:, None], axis=0)
    position = math.ceil(confidence * DRAWS) - 1
    quantiles = np.partition(np.abs(sums), position, axis=1)[:, position]
    factors = quantiles / np.sqrt(np.arange(1, parts + 1))
    return NoiseWidth(sizes, max(1.0, float(factors.max())))
