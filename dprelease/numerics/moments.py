"""Compute moments of a random integer from its tails, and of a density from Gauss points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.numerics.quadrature import gauss_points


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
