"""The privacy loss of normal noise, in closed form."""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from dprelease.numerics.balls import ball, least_above
from dprelease.privacy.loss import below


def normal_delta(mu: float, epsilon: float | Fraction) -> float:
    """Return Q(a) - exp(epsilon) Q(a + mu), a = epsilon/mu - mu/2, rounded up.

    Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8.
    """
    shift, edge = Fraction(mu), below(epsilon)

    def value() -> arb:
        a = ball(edge / shift - shift / 2)
        root = arb(2).sqrt()
        near, far = (a / root).erfc(), ((a + ball(shift)) / root).erfc()
        return (near - ball(edge).exp() * far) / 2

    return min(1.0, least_above(value))
