"""Moments of an integer from its tails, and of a density from Gauss points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.numerics.quadrature import gauss


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean, mean absolute deviation from a centre, and standard deviation."""

    mean: float
    absolute: float
    deviation: float


def of_tails(upper: Floats, lower: Floats, center: int) -> Moments:
    """Return the moments of an integer N: `absolute` is E |N - center|, the rest is about N itself.

    `upper[i]` = P(N >= i + 1), `lower[i]` = P(N <= -i - 1), for all i where they count.
    """
    if center < 0:
        mirrored = of_tails(lower, upper, -center)
        return Moments(-mirrored.mean, mirrored.absolute, mirrored.deviation)
    near = np.pad(upper, (0, max(0, center - len(upper))))
    mean = float(np.sum(upper) - np.sum(lower))
    absolute = float(np.sum(near[center:]) + np.sum(1.0 - near[:center]) + np.sum(lower))
    square = float(upper @ _odd(upper) + lower @ _odd(lower))
    return Moments(mean, absolute, float(np.sqrt(square - mean * mean)))


def _odd(tails: Floats) -> Floats:
    return 2.0 * np.arange(len(tails), dtype=np.float64) + 1.0


def of_density(density: Callable[[Floats], Floats], cuts: Floats, center: float) -> Moments:
    """Return the moments of a density that is smooth between `cuts` (ascending, with `center`).

    20 Gauss points between two cuts: exact to rounding where ln(density) changes by a few units.
    """
    nodes, weights = gauss(20)
    half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    x = middle[:, None] + half[:, None] * nodes
    mass = density(x) * weights * half[:, None]
    total = float(np.sum(mass))
    mean = float(np.sum(mass * x)) / total
    absolute = float(np.sum(mass * np.abs(x - center))) / total
    square = float(np.sum(mass * (x - mean) ** 2)) / total
    return Moments(mean, absolute, float(np.sqrt(square)))
