"""Integrals of smooth positive densities over many narrow intervals at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from dprelease.numerics.lattice import Floats


class Density(Protocol):
    """A function that returns the densities of many real numbers at once."""

    def __call__(self, x: Floats, /) -> Floats:
        """Return the density at each number in `x`."""
        ...


@lru_cache(maxsize=8)
def gauss_points(points: int) -> tuple[Floats, Floats]:
    """Return the Gauss-Legendre points on [-1, 1] and their weights; don't modify the arrays."""
    return np.polynomial.legendre.leggauss(points)


def interval_integrals(low: Floats, high: Floats, density: Density) -> Floats:
    """Return the integral of a positive density over each interval [low, high].

    The function uses 8 Gauss points. The density must be analytic around each interval, and
    ln(density) must change by at most 1 on each interval. Then relative errors are below 2**-40;
    tests compare the integrals with balls.
    """
    nodes, weights = gauss_points(8)
    half, middle = (high - low) / 2, (high + low) / 2
    values = density(middle[:, None] + half[:, None] * nodes)
    total: Floats = (values @ weights) * half
    return total
