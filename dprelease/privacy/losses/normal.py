"""The delta of normal noise, in closed form."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import arb

from dprelease.numerics.balls import LEAST_FLOAT, ball, least_above
from dprelease.numerics.normal_tail import ASYMPTOTIC, mills_ratio
from dprelease.privacy.loss import SURELY, strictly_below

UNSEEN = 39
"""Number of standard deviations at which a normal tail falls below the least float."""


def normal_delta(mu: float, epsilon: float | Fraction) -> float:
    """Return Q(a) - exp(epsilon) Q(a + mu), a = epsilon/mu - mu/2, rounded up; mu > 0.

    Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8.
    """
    if epsilon == math.inf:
        return 0.0
    if epsilon < -SURELY or mu == math.inf:
        return 1.0
    shift, edge = Fraction(mu), strictly_below(epsilon)
    start = edge / shift - shift / 2
    if start > UNSEEN:
        return LEAST_FLOAT
    if edge >= 0 and start < -UNSEEN:
        return 1.0

    def value() -> arb:
        a = ball(start)
        root = arb(2).sqrt()
        near = (a / root).erfc() / 2
        if start + shift > ASYMPTOTIC:  # exp(epsilon) times the density at a + mu is that at a
            density = (-a * a / 2).exp() / (2 * arb.pi()).sqrt()
            return near - density * mills_ratio(ball(start + shift))
        return near - ball(edge).exp() * ((a + ball(shift)) / root).erfc() / 2

    return min(1.0, least_above(value))
