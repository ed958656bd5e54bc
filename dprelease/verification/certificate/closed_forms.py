"""Bounds of epsilon in closed form, in balls, for normal losses and for zero-concentrated DP."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from dprelease.numerics.balls import ball

PRECISION = 256
HALVINGS = 200
ORDERS = 200


def normal_epsilon(mu_squared: Fraction, delta: Fraction) -> Fraction | None:
    """Return an epsilon that N(0, 1) against N(mu, 1) satisfies at `delta`; None if none is found.

    delta(epsilon) = Q(epsilon / mu - mu / 2) - e^epsilon Q(epsilon / mu + mu / 2): Balle and Wang
    2018, arXiv 1805.06530v2, Theorem 8. This delta decreases in epsilon and increases in mu.
    """
    if not mu_squared:
        return Fraction(0)
    if not delta:
        return None
    bits = PRECISION + 2 * (delta.denominator // delta.numerator).bit_length()
    with ctx.workprec(bits):
        mu, bound, root = ball(mu_squared).sqrt(), ball(delta), arb(2).sqrt()

        def suffices(epsilon: Fraction) -> bool:
            """Return whether an epsilon certainly satisfies the condition at `delta`."""
            e = ball(epsilon)
            near = ((e / mu - mu / 2) / root).erfc() / 2
            far = ((e / mu + mu / 2) / root).erfc() / 2
            return bool(near - e.exp() * far <= bound)

        return _smallest_sufficient(suffices)


def _smallest_sufficient(suffices: Callable[[Fraction], bool]) -> Fraction | None:
    """Return nearly the smallest epsilon that certainly suffices; None if none below 2^20 does."""
    if suffices(Fraction(0)):
        return Fraction(0)
    high = Fraction(1, 2**40)
    while not suffices(high):
        high *= 2
        if high > 2**20:
            return None
    low = high / 2
    for _ in range(HALVINGS):
        if high - low <= high / 2**60:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def concentrated_epsilon(rho: Fraction, delta: Fraction) -> Fraction | None:
    """Return an epsilon that rho-zCDP implies at `delta`; None if none is found.

    Every order a > 1 gives such an epsilon: a rho + (a ln(1 - 1/a) - ln(a - 1) - ln(delta)) /
    (a - 1), from Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5, Corollary 13. The best order
    is searched for in floats, and its epsilon is computed in balls.
    """
    if not rho:
        return Fraction(0)
    if not delta:
        return None
    size, least = float(rho), math.log(float(delta)) if float(delta) else -745.0

    def approximate_epsilon(log_offset: float) -> float:
        """Return the epsilon of the order 1 + exp(log_offset), in floats."""
        x = math.exp(log_offset)
        rest = -(1 + x) * math.log1p(1 / x) - log_offset - least
        return (1 + x) * size + rest / x

    low, high = -40.0, 40.0
    for _ in range(ORDERS):
        third = (high - low) / 3
        inside, beyond = low + third, high - third
        low, high = (
            (low, beyond)
            if approximate_epsilon(inside) < approximate_epsilon(beyond)
            else (inside, high)
        )
    with ctx.workprec(PRECISION):
        x = ball(Fraction(math.exp((low + high) / 2)))
        rest = -(1 + x) * (1 / x).log1p() - x.log() - ball(delta).log()
        return max(Fraction(0), upper_end((1 + x) * ball(rho) + rest / x))


def upper_end(x: arb) -> Fraction:
    """Return the upper end of an interval (ball)."""
    mantissa, exponent = (int(part) for part in x.upper().man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent
