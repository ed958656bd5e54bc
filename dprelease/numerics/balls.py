"""Convert rational numbers to balls, and balls to floats that are certain upper bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx, fmpq

from dprelease.numerics.rounding import round_up

ENOUGH_BITS = 60
"""Relative accuracy, in bits, of balls that are rounded up by less than two units of a float."""

LARGEST_PRECISION = 2**15
LEAST_FLOAT = 5e-324
LARGEST_FLOAT = 1.7976931348623157e308


def ball(x: Fraction | float) -> arb:
    """Return a ball around the number `x`, at the precision of the flint context."""
    exact = Fraction(x)
    return arb(fmpq(exact.numerator, exact.denominator))


def float_upper_bound(value: Callable[[], arb], start: int = 96) -> float:
    """Return a float that is certainly >= a non-negative number, and within 2**-50 of it.

    The function `value` returns a ball around the number, at the precision of the flint context. It
    is called with `start` bits first, and then with more bits until the accuracy suffices. So no
    accuracy is lost if `value` subtracts nearly equal terms. The result is the least float for a
    positive number below every float, and zero only for an exact zero.
    """
    precision = start
    while True:
        with ctx.workprec(precision):
            enclosed = value()
            if enclosed.is_zero():
                return 0.0
            # At the largest precision a wide ball is rounded up: a bound that is too large is still
            # a bound.
            if enclosed.rel_accuracy_bits() >= ENOUGH_BITS or precision >= LARGEST_PRECISION:
                return _upper_float(enclosed)
            # Numbers that underflow need no relative accuracy.
            if enclosed.upper() <= LEAST_FLOAT:
                return LEAST_FLOAT
        precision *= 2


def _upper_float(enclosed: arb) -> float:
    """Return the least float that is certain to be at least the enclosed number."""
    if enclosed.upper() <= LEAST_FLOAT:
        return LEAST_FLOAT
    if not enclosed.is_finite() or enclosed.upper() > LARGEST_FLOAT:
        return math.inf
    mantissa, exponent = (int(part) for part in enclosed.upper().man_exp())
    return round_up(Fraction(mantissa) * Fraction(2) ** exponent)
