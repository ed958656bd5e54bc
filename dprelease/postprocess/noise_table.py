"""Noise distributions as tables of floats, for margins of error only, not for guarantees."""

from __future__ import annotations

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

    def beyond(self, x: Floats) -> Floats:
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
        u = np.clip(u, 2.0**-40, 1.0 - 2.0**-40)
        tails, upper = np.minimum(u, 1.0 - u), u < 0.5
        draws = np.where(
            upper, _quantiles(mechanism, tails, True), _quantiles(mechanism, tails, False)
        )
        draws_by_mechanism.append(draws)
    return tuple(draws_by_mechanism)
