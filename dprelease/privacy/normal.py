"""The privacy loss of normal noise, in closed form."""

from __future__ import annotations

import math

from scipy import special

from dprelease.privacy.loss import SLACK


def normal_delta(mu: float, epsilon: float) -> float:
    """Return an upper bound of Q(a) - exp(epsilon) Q(a + mu), a = epsilon/mu - mu/2.

    Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8. For a > 0 both terms share exp(-a^2/2),
    which is taken out, so that far tails keep their digits.
    """
    a = epsilon / mu - mu / 2
    b = a + mu
    root = math.sqrt(2.0)
    if a > 0:
        first = 0.5 * math.exp(-(a * a) / 2)
        near, away = float(special.erfcx(a / root)), float(special.erfcx(b / root))
        return min(1.0, first * (near - away + near * 2.0**-46) * SLACK)
    first = float(special.ndtr(-a))
    second = math.exp(epsilon + float(special.log_ndtr(-b)))
    return min(1.0, (first - second + first * 2.0**-46) * SLACK)
