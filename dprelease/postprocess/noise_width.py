"""Quantiles of linear combinations of independent noise, bounded for all coefficients at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.noise_table import spread_draws

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
