"""Certified upper bounds of variances of integer noise, from balls around its tails.

Least squares weights measurements by these bounds, and standard errors are computed from them
(`consistency.structure.NoiseMoments`). Balls make the bounds equal on all machines.

For symmetric K with probabilities that fall from 0 on, T(k) = P(K >= k) is convex in k >= 1, and
    E K^2 = 2 sum over k >= 1 of (2k - 1) T(k).
Between two points T lies below its chord, whose sum has a closed form. Log-concave probabilities
have log-concave tails, T(k + 1) / T(k) falls, so the sum above M is at most
    T(M) ((2M - 1) / (1 - r) + 2 r / (1 - r)^2),    r = T(M) / T(M - 1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from flint import arb, ctx

from dprelease.numerics.balls import ball, least_above

FINE = 64
"""Least number of chords per standard deviation: bounds are within 2^-14 of the variance."""

PRECISION = 128
NO_TRACE = 2.0**-80
"""Tail below which the rest of the sum is bounded in one step."""


class LogConcave(Protocol):
    """Symmetric noise with log-concave probabilities."""

    @property
    def standard_deviation(self) -> float:
        """Return the approximate standard deviation, steps."""
        ...

    def upper_tail(self, k: int) -> arb:
        """Return a ball around P(K >= k) for k >= 1."""
        ...


@lru_cache(maxsize=256)
def log_concave_moments(distribution: LogConcave) -> tuple[Fraction, Fraction]:
    """Return a bound of the variance of symmetric log-concave noise, and its mean 0."""
    # A power of two, so that the last digits of a float don't change the ends of chords.
    step, tail = (
        1 << max(0, math.frexp(distribution.standard_deviation / FINE)[1] - 1),
        distribution.upper_tail,
    )
    with ctx.workprec(PRECISION):
        total, k, tail_at_k = arb(0), 1, tail(1)
        while k == 1 or tail_at_k.upper() > NO_TRACE:
            next_tail = tail(k + step)
            total += _chord(k, step, tail_at_k, next_tail)
            k, tail_at_k = k + step, next_tail
        fall = tail_at_k / tail(k - 1)
        rest = tail_at_k * ((2 * k - 1) / (1 - fall) + 2 * fall / (1 - fall) ** 2)
        return rounded_up(2 * (total + rest)), Fraction(0)


def _chord(first: int, n: int, left: arb, right: arb) -> arb:
    """Return the sum of (2k - 1) times the chord over k = first to first + n - 1."""
    squares = (first + n - 1) ** 2 - (first - 1) ** 2
    moments = Fraction((2 * first - 1) * n * (n - 1), 2) + Fraction((n - 1) * n * (2 * n - 1), 3)
    return left * squares - (left - right) * ball(moments / n)


def rounded_up(enclosed: arb) -> Fraction:
    """Return a float, as a fraction, that is certainly at least what a ball encloses."""
    return Fraction(least_above(lambda: enclosed))


def geometric_moments(scale: Fraction, rounded: bool) -> tuple[arb, arb]:
    """Return the sums of T(k) and of (2k - 1) T(k) over k >= 1 for one side's tails T.

    T(k) = exp(-k / scale), or exp(-(k - 1/2) / scale) of noise that is rounded.
    """
    rate = ball(-1 / scale)
    first = (rate / 2 if rounded else rate).exp()
    short = -rate.expm1()
    return first / short, first * (1 + rate.exp()) / short**2
