"""Discrete Gaussian: weights over their sum."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    scale = arb(law.scale)
    reach = int(40 * law.scale) + 2
    total = sum(((-(arb(j) ** 2) / (2 * scale**2)).exp() for j in range(1, reach)), arb(0))
    return (-(arb(k) ** 2) / (2 * scale**2)).exp() / (1 + 2 * total)
