"""Asymmetric Laplace, rounded: the paper's density, integrated over the cell."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def _below(law: Mechanism, x: arb) -> arb:
    k = arb(law.k)
    largest = k if law.k >= 1 else 1 / k
    rate = 1 / (arb(law.scale) * largest)
    height = rate / (k + 1 / k)
    if x < 0:
        return height * k / rate * (rate * x / k).exp()
    return 1 - height / (rate * k) * (-rate * k * x).exp()


def mass(law: Mechanism, k: int) -> arb:
    low, high = (arb(2 * (k + int(law.center)) + side) / 2 for side in (-1, 1))
    return _below(law, high) - _below(law, low)
