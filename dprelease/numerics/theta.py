"""Sums of the weights exp(-(k / scale)^2 / 2 - ratio |k| / scale) over integers k, and tails.

For ratio 0, the weights belong to the discrete Gaussian distribution. With h = 1 / scale, a weight
times h phi(ratio) is h phi(k h + ratio), which is a normal density on a grid with an offset.
Rigorous balls are computed by direct summation if the terms fall fast, and otherwise by the
Euler-Maclaurin formula with a bound of its remainder. Floats are computed in the same two ways.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx, fmpq

from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.numerics.normal_tail import mills_ratio, normal_quantile

DIRECT_BELOW = 8.0
TABLE_BELOW = 1024.0
LARGEST_ORDER = 1000
FEW_TERMS = 100
UNDERFLOW_EXPONENT = 840.5
"""Largest exponent in a table, above which the probability is below 1e-364, and underflows."""


def upper_tail(scale: float, ratio: float, k: int) -> arb:
    """Return a ball around P(K >= k) for an integer k >= 1.

    The ball has the precision of the flint context.
    """
    return weight_from(scale, ratio, k) / total_weight(scale, ratio)


def total_weight(scale: float, ratio: float) -> arb:
    """Return a ball around the sum of all weights, where the weight of zero is 1."""
    return 1 + 2 * weight_from(scale, ratio, 1)


def weight_from(scale: float, ratio: float | Fraction, k: int) -> arb:
    """Return a ball around the sum over j >= k of exp(-(j / scale)^2 / 2 - ratio j / scale).

    The integer k is at least 1. For k = 1 the ratio may be negative. Then the sum is a difference:
    Poisson's formula yields the sum over all integers, from which the terms of 0 and of negative
    integers are subtracted.

    Raises ValueError if the ratio is negative and k is not 1.
    """
    if ratio >= 0:
        return _cached_weight_from(scale, ratio, k, ctx.prec)
    if k != 1:
        raise ValueError("a rising weight is summed from 1 on")
    m = ball(-ratio)
    return (m * m / 2).exp() * _sum_over_all_integers(scale, m) - 1 - weight_from(scale, -ratio, 1)


def _sum_over_all_integers(scale: float, m: arb) -> arb:
    """Return a ball around the sum over all integers j of exp(-(j / scale - m)^2 / 2).

    By Poisson's formula, this sum is scale sqrt(2 pi) times the sum over all integers n of
    exp(-2 (pi scale n)^2) cos(2 pi scale m n).
    """
    s = arb(scale)
    rate = -2 * (arb.pi() * s) ** 2
    series, n, least = arb(1), 1, arb(2) ** -(ctx.prec + 8)
    while True:
        size = (rate * (n * n)).exp()
        rest = 2 * size / (1 - (rate * (2 * n + 1)).exp())
        if rest <= least:
            return (series + arb(0, rest.abs_upper())) * s * (2 * arb.pi()).sqrt()
        series += 2 * size * (2 * arb.pi() * s * m * n).cos()
        n += 1


@lru_cache(maxsize=4096)
def _cached_weight_from(scale: float, ratio: float | Fraction, k: int, precision: int) -> arb:  # noqa: ARG001
    """Return a ball around the sum over j >= k of exp(-(j h)^2 / 2 - r j h), h = 1 / scale."""
    # `precision` is only a cache key; a ball of any precision encloses the sum.
    h, r = 1 / arb(scale), ball(ratio)
    start = k / scale + float(ratio)
    terms = scale * (math.sqrt(start * start + 1.4 * (ctx.prec + 8)) - start)
    # The Euler-Maclaurin formula needs neighbouring terms with a ratio above exp(-1), and several
    # terms within one scale.
    if terms < FEW_TERMS or scale < DIRECT_BELOW or start > scale:
        return _direct_sum(h, r, k)
    return _euler_maclaurin(h, r, k)


def _direct_sum(h: arb, r: arb, k: int) -> arb:
    """Return a ball around the sum over j >= k of exp(-(j h)^2 / 2 - r j h), for k >= 1.

    The ratio of two successive terms falls by the factor exp(-h^2) from term to term, so each term
    takes two multiplications.
    """
    first = (-((k * h) ** 2) / 2 - r * k * h).exp()
    fall = (-(2 * k + 1) * h * h / 2 - r * h).exp()
    change = (-h * h).exp()
    term, sum_of_terms = first, arb(0)
    least = arb(2) ** -(ctx.prec + 8)
    while True:
        sum_of_terms += term
        term *= fall
        fall *= change
        rest = term / (1 - fall)  # the ratios fall, so a geometric series bounds the rest
        # If `fall` is not certainly below 1, the balls are too wide for any further term to help.
        if rest <= sum_of_terms * least or not fall < 1:
            return sum_of_terms + _interval_ball(arb(0), rest)


def _interval_ball(low: arb, high: arb) -> arb:
    """Return a ball that contains all numbers between two others."""
    return (low + high) / 2 + arb(0, (high - low).abs_upper())


def _euler_maclaurin(h: arb, r: arb, k: int) -> arb:
    """Return the same sum as `_direct_sum`, from an integral and derivatives (midpoint formula).

    With a = (k - 1/2) h + r and b_i = -B_2i(1/2) / (2i)!, the sum over j >= k of h phi(j h + r) is
    Q(a) + sum over i of b_i h^(2i) phi^(2i-1)(a). The remainder after p terms is at most
    |B_2p| / (2p)! h^(2p) times the integral of |phi^(2p)| = |He_2p| phi from a on.
    """
    a = (arb(2 * k - 1) / 2) * h + r
    density = (-(a * a) / 2).exp() / (2 * arb.pi()).sqrt()
    series = density * mills_ratio(a)
    target = series * arb(2) ** -(ctx.prec + 8)
    hermite = [arb(1), a]  # phi^(n) = (-1)^n He_n phi
    power, order = h * h, 1
    while True:
        coefficient, largest = _coefficients(2 * order, ctx.prec)
        series += coefficient * power * hermite[2 * order - 1] * density
        bound = largest * power * density * _hermite_bound(2 * order, a)
        # At the largest order the ball is wide, and callers ask for more bits.
        if bound <= target or order > LARGEST_ORDER:
            exact = series + arb(0, bound.abs_upper())
            return exact * (2 * arb.pi()).sqrt() * (r * r / 2).exp() / h
        for n in (2 * order - 1, 2 * order):
            hermite.append(a * hermite[n] - n * hermite[n - 1])
        power *= h * h
        order += 1


def _hermite_bound(n: int, a: arb) -> arb:
    """Return a bound of the integral of |He_n| phi from a > 0 on, divided by phi(a).

    With x = a + t, He_n(x) is the sum over i of C(n, i) a^(n-i) He_i(t), and
    phi(x) <= phi(a) exp(-t^2 / 2). By Cauchy and Schwarz, the integral of |He_i(t)| exp(-t^2 / 2)
    over t > 0 is at most sqrt(2 pi i!) / 2. With i! <= n^i, the integral of the sum is at most
    (a + sqrt n)^n sqrt(pi / 2).
    """
    return (a + arb(n).sqrt()) ** n * (arb.pi() / 2).sqrt()


@lru_cache(maxsize=2048)
def _bernoulli(n: int) -> Fraction:
    """Return the Bernoulli number with this index."""
    number = fmpq.bernoulli(n)
    return Fraction(int(number.p), int(number.q))


@lru_cache(maxsize=4096)
def _coefficients(n: int, precision: int) -> tuple[arb, arb]:  # noqa: ARG001
    """Return B_n(1/2) / n! and |B_n| / n!, where `precision` is only a part of the cache key."""
    number = _bernoulli(n) / math.factorial(n)
    return ball((Fraction(2) ** (1 - n) - 1) * number), ball(abs(number))


@lru_cache(maxsize=64)
def point_probabilities(scale: float, ratio: float = 0.0) -> Floats:
    """Return P(K = k) for all k >= 0 up to the k at which it underflows.

    The scale must be below 1024. Errors are below 2**-38.
    """
    largest = math.sqrt(ratio * ratio + 2 * UNDERFLOW_EXPONENT) - ratio
    y = np.arange(int(largest * scale) + 2, dtype=np.float64) / scale
    probabilities = np.exp(-y * (y / 2 + ratio))
    # Summed from the smallest term up, so that small terms are not lost.
    probabilities /= 1.0 + 2.0 * float(np.sum(probabilities[:0:-1]))
    probabilities.setflags(write=False)
    return probabilities


@lru_cache(maxsize=64)
def tails(scale: float, ratio: float = 0.0) -> Floats:
    """Return P(K >= k) for the same k as `point_probabilities`, with relative errors below 2**-37.

    The sums start at the largest k. All terms are positive, so the sum of n terms adds a relative
    error of at most n 2**-53.
    """
    probabilities = point_probabilities(scale, ratio)
    table = np.cumsum(probabilities[::-1])[::-1].copy()
    table.setflags(write=False)
    return table


@lru_cache(maxsize=64)
def weights_per_scale(scale: float, ratio: float) -> float:
    """Return the sum of all weights divided by the scale, with a relative error below 2**-50."""
    with ctx.workprec(128):
        return float(total_weight(scale, ratio) / arb(scale))


def large_scale_quantile(scale: float, ratio: float, u: Floats) -> Floats:
    """Return the real number x at which the tail is u, for scales of 1024 and more.

    The Euler-Maclaurin formula extends the tail to real numbers. If Q(z) is u phi(ratio) times
    `weights_per_scale`, then x = scale (z - z h^2 / 24 - ratio) + 1/2 up to omitted terms, which
    `quantile_error` bounds.
    """
    z = normal_quantile(
        u
        * (math.exp(-ratio * ratio / 2) / math.sqrt(2 * math.pi) * weights_per_scale(scale, ratio))
    )
    z *= -(1.0 - 1.0 / (24.0 * scale * scale))
    z -= ratio
    z *= scale
    z += 0.5
    return z


def quantile_error(scale: float, ratio: float) -> float:
    """Return a bound, in steps, on the error of `large_scale_quantile` for u above 2**-20.

    For such a u, z is below ratio + 8. In units of h^4, the omitted terms are 7/5760 (z^3 + 3 z)
    and half of the square of z / 24, times z.
    """
    return scale**-3 * (8.0 + (ratio + 8.0) ** 3 / 100)
