"""Certified upper bounds of the variances of integer noise, from balls around its tails.

Least squares uses the inverses of these bounds as weights of measurements, and standard errors are
computed from the bounds (`consistency.structure.NoiseMoments`). Ball arithmetic makes the bounds
equal on all machines.

If K is symmetric and its probabilities fall from 0 on, T(k) = P(K >= k) is convex in k >= 1, and
    E K^2 = 2 sum over k >= 1 of (2k - 1) T(k).
Between two integers, T lies below its chord, and the sum of the chord has a closed form. If the
probabilities are log-concave, the tails are log-concave as well, and T(k + 1) / T(k) falls. So the
sum above an integer M is at most
    T(M) ((2M - 1) / (1 - r) + 2 r / (1 - r)^2),    r = T(M) / T(M - 1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from flint import arb, ctx

from dprelease.numerics.balls import ball, float_upper_bound

CHORDS_PER_DEVIATION = 64
"""Least number of chords per standard deviation, for which bounds are within 2^-14 of variances."""

PRECISION = 128
NEGLIGIBLE_TAIL = 2.0**-80
"""Tail probability below which one formula bounds the rest of the sum."""


class LogConcave(Protocol):
    """Symmetric noise with log-concave probabilities."""

    @property
    def standard_deviation(self) -> float:
        """Return the approximate standard deviation, in steps."""
        ...

    def upper_tail(self, k: int) -> arb:
        """Return an interval (ball) around the probability P(K >= k) for an integer k >= 1."""
        ...


@lru_cache(maxsize=256)
def log_concave_variance_bound(distribution: LogConcave) -> tuple[Fraction, Fraction]:
    """Return an upper bound of the variance of symmetric log-concave noise, and its mean 0."""
    # A power of two, so that the last digits of a float don't change the ends of chords.
    step = 1 << max(0, math.frexp(distribution.standard_deviation / CHORDS_PER_DEVIATION)[1] - 1)
    tail = distribution.upper_tail
    with ctx.workprec(PRECISION):
        total, k, tail_at_k = arb(0), 1, tail(1)
        while k == 1 or tail_at_k.upper() > NEGLIGIBLE_TAIL:
            next_tail = tail(k + step)
            total += _chord_sum(k, step, tail_at_k, next_tail)
            k, tail_at_k = k + step, next_tail
        # The first k is 1 and only later ones are near the end, so tail(k - 1) is always a tail
        # above 0.
        fall = tail_at_k / tail(k - 1)
        rest = tail_at_k * ((2 * k - 1) / (1 - fall) + 2 * fall / (1 - fall) ** 2)
        return upper_fraction(2 * (total + rest)), Fraction(0)


def _chord_sum(first: int, n: int, left: arb, right: arb) -> arb:
    """Return the sum of (2k - 1) times the chord at k, over k from `first` to first + n - 1.

    The chord has the value `left` at `first` and the value `right` at first + n.
    """
    squares = (first + n - 1) ** 2 - (first - 1) ** 2
    moments = Fraction((2 * first - 1) * n * (n - 1), 2) + Fraction((n - 1) * n * (2 * n - 1), 3)
    return left * squares - (left - right) * ball(moments / n)


def upper_fraction(enclosed: arb) -> Fraction:
    """Return a fraction, equal to a float, that is at least all numbers in an interval (ball)."""
    return Fraction(float_upper_bound(lambda: enclosed))


def geometric_moments(scale: Fraction, rounded: bool) -> tuple[arb, arb]:
    """Return the sums over k >= 1 of T(k) and of (2k - 1) T(k), where T is a geometric tail.

    T(k) is exp(-(k - 1/2) / scale) if `rounded`, as for rounded continuous noise, and otherwise
    exp(-k / scale).
    """
    rate = ball(-1 / scale)
    first = (rate / 2 if rounded else rate).exp()
    short = -rate.expm1()
    return first / short, first * (1 + rate.exp()) / short**2
