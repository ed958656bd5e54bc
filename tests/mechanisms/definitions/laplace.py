"""Laplace, rounded: differences of the textbook distribution function."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def _below(law: Mechanism, x: arb) -> arb:
    away = (-abs(x) / arb(law.scale)).exp() / 2
    return 1 - away if x > 0 else away


def mass(law: Mechanism, k: int) -> arb:
    low, high = (arb(2 * k + side) / 2 for side in (-1, 1))
    return _below(law, high) - _below(law, low)
