"""Discrete Laplace: the two-sided geometric pmf."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    q = (-1 / arb(law.scale)).exp()
    return (1 - q) / (1 + q) * q ** abs(k)
