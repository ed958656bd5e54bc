"""Discrete OSGT: weights over their sum."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    scale, ratio = arb(law.scale), arb(law.ratio)

    def weight(j: int) -> arb:
        return (-(arb(j) ** 2) / (2 * scale**2) - ratio * abs(j) / scale).exp()

    reach = int(40 * law.scale) + 2
    total = sum((weight(j) for j in range(1, reach)), arb(0))
    return weight(k) / (1 + 2 * total)
