"""Tails and quantiles of the distribution with a density proportional to exp(-|y|^p), p >= 1.

For y >= 0, P(Y >= y) = Q(1/p, y^p) / 2, where Q is the regularized upper incomplete gamma function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import arb

from dprelease.numerics.lattice import Flags, Floats

LEAST_TAIL = 2.0**-21
NODE_COUNT = 2**15
SERIES_ERROR = 2.0**-42
"""Largest accepted error of a float quantile, in addition to the error from inexact tails."""

_STEP = -math.log(2.0 * LEAST_TAIL) / NODE_COUNT


def tail(power: float, y: Floats) -> Floats:
    """Return P(Y >= y) for y >= 0, with relative errors below 1e-12 for tails above 1e-300."""
    from scipy import special  # SciPy is slow to load, and few plans need it

    tails: Floats = np.float64(0.5) * special.gammaincc(1 / power, y**power)
    return tails


def probability_from_zero(power: float, y: Floats) -> Floats:
    """Return P(0 <= Y <= y) for y >= 0."""
    from scipy import special

    masses: Floats = np.float64(0.5) * special.gammainc(1 / power, y**power)
    return masses


def tail_ball(power: float, y: arb) -> arb:
    """Return a ball around P(Y >= y) for any y."""
    if y == 0:
        return arb(1) / 2
    if y.contains(0):  # the tail falls with y, so it lies between its values at both ends
        low, high = arb(y.lower()), arb(y.upper())
        return tail_ball(power, low.mid()).union(tail_ball(power, high.mid()))
    # The second argument 1 is flint's code for the regularized function.
    half = (abs(y) ** arb(power)).gamma_upper(1 / arb(power), 1) / 2
    return half if y > 0 else 1 - half


def density(power: float) -> float:
    """Return the density at 0, which is 1 / (2 Gamma(1 + 1/p))."""
    return 1.0 / (2.0 * math.gamma(1.0 + 1.0 / power))


def quantile_bound(power: float, least: float) -> float:
    """Return a y with P(Y >= y) <= `least`, an upper bound of a quantile.

    It follows from Q(a, t) <= exp(-t) for a <= 1.
    """
    return float(math.log(1.0 / least) ** (1.0 / power))


@dataclass(frozen=True)
class _Nodes:
    """Tabulated quantiles y of the tails exp(-i step) / 2, each with a series of the quantile.

    With w = (tail - u) / density, the quantile of u is y + w + second w^2 + third w^3 + ....
    `is_precise` marks the nodes whose series has an error below `SERIES_ERROR` up to the middle
    between this node and the next one.
    """

    y: Floats
    tail: Floats
    inverse_density: Floats
    second: Floats
    third: Floats
    is_precise: Flags


@lru_cache(maxsize=32)
def _nodes(power: float) -> _Nodes:
    """Return the nodes of the quantile function, with its derivatives and their error."""
    y = np.linspace(0.0, quantile_bound(power, LEAST_TAIL), 2 * NODE_COUNT)
    depth = -np.log(2.0 * tail(power, y))
    y = np.interp(np.arange(NODE_COUNT + 2, dtype=np.float64) * _STEP, depth, y)
    y[0] = y[1] / 64  # powers of 0 may be infinite
    inverse_density = np.exp(y**power) / density(power)
    slope, bend = power * y ** (power - 1), power * (power - 1) * y ** (power - 2)
    second, third = slope / 2, (2 * slope**2 + bend) / 6
    tails_at_nodes = tail(power, y)
    error = np.zeros_like(y)
    for half in (-0.5, 0.5):  # the truncation error grows with the distance
        u = np.minimum(tails_at_nodes * np.exp(half * 1.02 * _STEP), 0.5)
        w = (tails_at_nodes - u) * inverse_density
        refined = np.maximum(y + w * (1 + w * (second + w * third)), 0.0)
        error = np.maximum(error, np.abs(tail(power, refined) - u) * np.exp(refined**power))
    return _Nodes(
        y, tails_at_nodes, inverse_density, second, third, 4 * error / density(power) < SERIES_ERROR
    )


def quantile(power: float, u: Floats) -> tuple[Floats, Flags]:
    """Return the quantiles y with P(Y >= y) = u, for u in (0, 1/2], and flags of precise quantiles.

    The error of a precise quantile is below 2**-41. A quantile is computed from a series at a
    tabulated quantile, or with Newton steps if the series is not precise. No quantile of a u below
    2**-20 is flagged as precise. Tests compare the quantiles with balls at many points.
    """
    nodes = _nodes(power)
    position = np.log(u)
    position *= -1.0 / _STEP
    position += 0.5 - math.log(2.0) / _STEP
    index = np.clip(position, 0.0, NODE_COUNT).astype(np.int64)
    w = nodes.tail[index]
    w -= u
    w *= nodes.inverse_density[index]
    y = nodes.third[index]
    y *= w
    y += nodes.second[index]
    y *= w
    y += 1.0
    y *= w
    y += nodes.y[index]
    certain = nodes.is_precise[index]
    rest = np.flatnonzero(~certain)
    if len(rest):
        y[rest], certain[rest] = _newton_quantiles(power, u[rest], nodes.y[index[rest]])
    # Twice the least tail is 2^-20, below which one word does not determine u well enough.
    return y, certain & (u > 2 * LEAST_TAIL)


def _newton_quantiles(power: float, u: Floats, guess: Floats) -> tuple[Floats, Flags]:
    """Return quantiles after two Newton steps, and flags of the certainly precise quantiles.

    The density falls, so a Newton step d differs from the exact step by at most
    |d| expm1(|d| p y^(p-1)), where y is the larger end of the step.
    """
    y, bound = guess, guess
    for _ in range(2):
        step = (tail(power, guess) - u) * np.exp(guess**power) / density(power)
        y = np.maximum(guess + step, 0.0)
        bound = 1.01 * power * np.maximum(guess, y) ** (power - 1) * step * step
        guess = y
    return y, bound < SERIES_ERROR


@lru_cache(maxsize=64)
def ascending_tails(power: float, scale: float) -> Floats:
    """Return the sorted tails P(round(scale Y) >= k), from below 2**-21 up to the tail of 0."""
    last = math.ceil(scale * quantile_bound(power, LEAST_TAIL)) + 2
    k = np.arange(1, last, dtype=np.float64)
    tails = tail(power, (k - 0.5) / scale)
    # The 0 in front makes the smallest tail uncertain, and P(K >= 0) is 1 - P(K >= 1) by symmetry.
    return np.concatenate(([0.0], tails[::-1], [1.0 - tails[0]]))
