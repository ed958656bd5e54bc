"""The unavoidable errors of an attacker who guesses whether one person is in the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.priced_vector import PricedVector

CURVE_DELTAS = tuple(Fraction(1, 10**i) for i in range(1, 10))

Pairs = Sequence[tuple[float, float]]
"""Pairs (epsilon, delta) that hold for the same release."""


def epsilon_delta_pairs(vectors: Sequence[PricedVector], pure_epsilon: float) -> Pairs:
    """Return pairs (epsilon, delta) that all vectors together have, at several deltas and at 0."""
    pairs = [(epsilon_at(vectors, delta), float(delta)) for delta in CURVE_DELTAS]
    return [*pairs, (pure_epsilon, 0.0)]


def least_missed(pairs: Iterable[tuple[float, float]], alarms: Floats) -> Floats:
    """Return the least rate of misses of an attacker, for each rate of false alarms in `alarms`.

    Each pair (epsilon, delta) of the release gives a lower bound on the rate of misses; the result
    is the largest of these bounds (Wasserman and Zhou 2010; Dong, Roth and Su 2022, arXiv
    1905.02383v3, Proposition 2.5).
    """
    missed = np.zeros_like(alarms)
    for epsilon, delta in pairs:
        if math.isinf(epsilon):
            continue
        first = 1.0 - delta - np.exp(min(epsilon, 700.0)) * alarms
        second = math.exp(-epsilon) * (1.0 - delta - alarms)
        missed = np.maximum(missed, np.maximum(first, second))
    return missed
