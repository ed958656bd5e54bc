"""Integrals of smooth densities over many narrow intervals, and moments from tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


# Compute moments of a random integer from its tails, and of a density from Gauss points.


@dataclass(frozen=True, slots=True)
class Moments:
    """The mean, the mean absolute deviation from a centre, and the standard deviation."""

    mean: float
    absolute: float
    deviation: float


def moments_of_tails(upper: Floats, lower: Floats, center: int) -> Moments:
    """Return the mean and the standard deviation of a random integer N, and E |N - center|.

    The tails are `upper[i]` = P(N >= i + 1) and `lower[i]` = P(N <= -i - 1), for all i for which
    they are not negligible.
    """
    if center < 0:
        mirrored = moments_of_tails(lower, upper, -center)
        return Moments(-mirrored.mean, mirrored.absolute, mirrored.deviation)
    # E |N - c| is the sum of P(N > j) over j >= c and of P(N <= j) over j < c, of which tails
    # beyond the table are 0.
    padded = np.pad(upper, (0, max(0, center - len(upper))))
    mean = float(np.sum(upper) - np.sum(lower))
    absolute = float(np.sum(padded[center:]) + np.sum(1.0 - padded[:center]) + np.sum(lower))
    square = float(upper @ _odd_numbers(upper) + lower @ _odd_numbers(lower))
    return Moments(mean, absolute, float(np.sqrt(square - mean * mean)))


def _odd_numbers(tails: Floats) -> Floats:
    """Return as many odd numbers as there are tails, from 1 on."""
    return 2.0 * np.arange(len(tails), dtype=np.float64) + 1.0


def moments_of_density(density: Callable[[Floats], Floats], cuts: Floats, center: float) -> Moments:
    """Return the moments of a density that is smooth between the points `cuts`.

    The cuts are sorted, and `center` is one of them. The integral between two cuts uses 20 Gauss
    points, so it is exact up to rounding if ln(density) changes by only a few units between them.
    """
    nodes, weights = gauss_points(20)
    half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    x = middle[:, None] + half[:, None] * nodes
    probabilities = density(x) * weights * half[:, None]
    total = float(np.sum(probabilities))
    mean = float(np.sum(probabilities * x)) / total
    absolute = float(np.sum(probabilities * np.abs(x - center))) / total
    square = float(np.sum(probabilities * (x - mean) ** 2)) / total
    return Moments(mean, absolute, float(np.sqrt(square)))
