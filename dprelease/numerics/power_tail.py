"""Tails of the density proportional to exp(-|y|^p), p >= 1: floats, balls and quantiles.

P(Y >= y) = Q(1/p, y^p) / 2 for y >= 0, Q the regularized upper incomplete gamma function.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from scipy import special

from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Flags, Floats

LEAST_TAIL = 2.0**-21
NODES = 2**15
GUESS_ERROR = 2.0**-42
"""Largest error of one Newton step, beyond that of the tails, that is let through."""


def tail(power: float, y: Floats) -> Floats:
    """Return P(Y >= y) for y >= 0; relative error below 1e-12 where it is above 1e-300."""
    found: Floats = np.float64(0.5) * special.gammaincc(1 / power, y**power)
    return found


def inner(power: float, y: Floats) -> Floats:
    """Return P(0 <= Y <= y) for y >= 0."""
    found: Floats = np.float64(0.5) * special.gammainc(1 / power, y**power)
    return found


def tail_ball(power: float, y: arb) -> arb:
    """Return a ball around P(Y >= y), for any y whose sign is certain."""
    if y == 0:
        return arb(1) / 2
    half = (abs(y) ** arb(power)).gamma_upper(1 / arb(power), 1) / 2
    return half if y > 0 else 1 - half


def density(power: float) -> float:
    """Return the density at 0, 1 / (2 Gamma(1 + 1/p))."""
    return 1.0 / (2.0 * math.gamma(1.0 + 1.0 / power))


def size_ball(power: float, y: Fraction) -> arb:
    """Return a ball around |y|^p."""
    return ball(abs(y)) ** arb(power) if y else arb(0)


def reach(power: float, least: float) -> float:
    """Return a y with P(Y >= y) <= `least`: Q(a, t) <= exp(-t) for a <= 1."""
    return float(math.log(1.0 / least) ** (1.0 / power))


@lru_cache(maxsize=32)
def _guesses(power: float) -> Floats:
    """Return quantiles at tails exp(-i step) / 2, i = 0, 1, ..., up to `LEAST_TAIL`."""
    y = np.linspace(0.0, reach(power, LEAST_TAIL), 2 * NODES)
    depth = -np.log(2.0 * tail(power, y))
    found: Floats = np.interp(np.arange(NODES + 2) * _step(), depth, y)
    return found


def _step() -> float:
    return -math.log(2.0 * LEAST_TAIL) / NODES


def quantile(power: float, u: Floats) -> tuple[Floats, Flags]:
    """Return y with P(Y >= y) = u in (0, 1/2], and where it errs by less than 2**-41.

    A guess from a table, and one Newton step d: with ln f the log-density, the true step lies
    within |d| expm1(|d| p y^(p-1)) of it, for y the larger end, as f falls. Where this bound is too
    large, and below 2**-20, nothing is claimed. Tails err by 1e-12, relative, and move the quantile
    by that over p y^(p-1) + (density at 0), below a unit.
    """
    nodes = _guesses(power)
    place = np.log(u)
    place += math.log(2.0)
    place *= -1.0 / _step()
    np.clip(place, 0.0, NODES, out=place)
    index = place.astype(np.int64)
    place -= index
    low = nodes[index]
    guess = low + place * (nodes[index + 1] - low)
    size = guess**power
    step = special.gammaincc(1 / power, size)
    step *= 0.5
    step -= u
    step *= np.exp(size) / density(power)
    found = guess + step
    farther = np.maximum(guess, found)
    bound = 1.01 * power * farther ** (power - 1) * step * step
    return np.maximum(found, 0.0), bound < GUESS_ERROR


@lru_cache(maxsize=64)
def ascending_tails(power: float, scale: float) -> Floats:
    """Return P(round(scale Y) >= k), ascending, from the k where it falls below 2**-21 to k = 0."""
    last = math.ceil(scale * reach(power, LEAST_TAIL)) + 2
    k = np.arange(1, last, dtype=np.float64)
    tails = tail(power, (k - 0.5) / scale)
    return np.concatenate(([0.0], tails[::-1], [1.0 - tails[0]]))
