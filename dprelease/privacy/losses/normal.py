"""The delta of normal noise, computed from a closed formula."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import arb

from dprelease.numerics.balls import LEAST_FLOAT, ball, float_upper_bound
from dprelease.numerics.normal_tail import ASYMPTOTIC, mills_ratio
from dprelease.privacy.loss import CERTAIN_DELTA_EPSILON, epsilon_lower_bound

UNDERFLOW_DEVIATIONS = 39
"""Number of standard deviations at which a normal tail falls below the least float."""


def normal_delta(mu: float, epsilon: float | Fraction) -> float:
    """Return Q(a) - exp(epsilon) Q(a + mu), rounded up, with a = epsilon/mu - mu/2 and mu > 0.

    This is the delta of a normal loss (Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8).
    """
    if epsilon == math.inf:
        return 0.0
    if epsilon < -CERTAIN_DELTA_EPSILON or mu == math.inf:
        return 1.0
    shift, epsilon_below = Fraction(mu), epsilon_lower_bound(epsilon)
    a_exact = epsilon_below / shift - shift / 2
    if a_exact > UNDERFLOW_DEVIATIONS:
        return LEAST_FLOAT
    if epsilon_below >= 0 and a_exact < -UNDERFLOW_DEVIATIONS:
        return 1.0

    def delta_interval() -> arb:
        """Return an interval (ball) that contains delta."""
        a = ball(a_exact)
        root = arb(2).sqrt()
        upper_tail = (a / root).erfc() / 2
        # exp(epsilon) times the normal density at a + mu is the normal density at a.
        if a_exact + shift > ASYMPTOTIC:
            density = (-a * a / 2).exp() / (2 * arb.pi()).sqrt()
            return upper_tail - density * mills_ratio(ball(a_exact + shift))
        return upper_tail - ball(epsilon_below).exp() * ((a + ball(shift)) / root).erfc() / 2

    return min(1.0, float_upper_bound(delta_interval))
