"""Gaussian, rounded: differences of the normal distribution function."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    ends = [arb(2 * k + side) / 2 for side in (-1, 1)]
    low, high = ((end / (arb(law.scale) * arb(2).sqrt())).erfc() / 2 for end in ends)
    return low - high
