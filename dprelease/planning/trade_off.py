"""The unavoidable errors of an attacker who guesses whether one person is in the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.priced_vector import PricedVector

DELTAS = tuple(Fraction(1, 10**i) for i in range(1, 10))

Pairs = Sequence[tuple[float, float]]
"""Epsilons, each with its delta."""


def pairs_of(vectors: Sequence[PricedVector], pure_epsilon: float) -> Pairs:
    """Return epsilons of noisy vectors together, at several deltas and at 0."""
    pairs = [(epsilon_at(vectors, delta), float(delta)) for delta in DELTAS]
    return [*pairs, (pure_epsilon, 0.0)]


def least_missed(pairs: Iterable[tuple[float, float]], alarms: Floats) -> Floats:
    """Return the least rates of misses for some rates of false alarms.

    The maximum of the curves of all (epsilon, delta) that the release has (Wasserman and Zhou 2010;
    Dong, Roth and Su 2022, arXiv 1905.02383v3, Proposition 2.5).
    """
    missed = np.zeros_like(alarms)
    for epsilon, delta in pairs:
        if math.isinf(epsilon):
            continue
        first = 1.0 - delta - np.exp(min(epsilon, 700.0)) * alarms
        second = math.exp(-epsilon) * (1.0 - delta - alarms)
        missed = np.maximum(missed, np.maximum(first, second))
    return missed
