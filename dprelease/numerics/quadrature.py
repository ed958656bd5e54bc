"""Integrals of smooth positive densities over many narrow cells at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from dprelease.numerics.lattice import Floats


class Density(Protocol):
    """A density on the reals, vectorised."""

    def __call__(self, x: Floats, /) -> Floats:
        """Return the density at each x."""
        ...


@lru_cache(maxsize=8)
def gauss(points: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre points on [-1, 1] and their weights; don't modify them."""
    return np.polynomial.legendre.leggauss(points)


def cells_between(low: Floats, high: Floats, density: Density) -> Floats:
    """Return the integral of a positive density over each [low, high], by 8 Gauss points.

    Contract: the density is analytic around each cell, and ln(density) changes by at most 1 on it.
    Then the relative error is below 2**-40: the tests compare with balls.
    """
    nodes, weights = gauss(8)
    half, middle = (high - low) / 2, (high + low) / 2
    values = density(middle[:, None] + half[:, None] * nodes)
    total: Floats = (values @ weights) * half
    return total
