"""Integrals of smooth positive densities over many narrow cells at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dprelease.numerics.lattice import Floats


class Density(Protocol):
    """A density on the reals, vectorised."""

    def __call__(self, x: Floats, /) -> Floats:
        """Return the density at each x."""
        ...


def cells_between(low: Floats, high: Floats, density: Density) -> Floats:
    """Return the integral of a positive density over each [low, high], by 8 Gauss points.

    Contract: the density is analytic around each cell, and ln(density) changes by at most 1 on it.
    Then the relative error is below 2**-40: the tests compare with balls.
    """
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half, middle = (high - low) / 2, (high + low) / 2
    values = density(middle[:, None] + half[:, None] * nodes)
    total: Floats = (values @ weights) * half
    return total
