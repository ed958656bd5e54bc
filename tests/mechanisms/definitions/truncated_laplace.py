"""Truncated Laplace, rounded: the density over its integral, integrated over the cell."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def _area(law: Mechanism, low: arb, high: arb) -> arb:
    """Return the integral of exp(-|x| / scale) between two points on one side of zero."""
    scale = arb(law.scale)
    near, far = (low, high) if low >= 0 else (-high, -low)
    return scale * ((-near / scale).exp() - (-far / scale).exp())


def _between(law: Mechanism, low: arb, high: arb) -> arb:
    low, high = (max(arb(law.lower), min(arb(law.upper), x)) for x in (low, high))
    if low < 0 < high:
        return _area(law, low, arb(0)) + _area(law, arb(0), high)
    return _area(law, low, high)


def mass(law: Mechanism, k: int) -> arb:
    low, high = (arb(2 * (k + int(law.center)) + side) / 2 for side in (-1, 1))
    return _between(law, low, high) / _between(law, arb(law.lower), arb(law.upper))
