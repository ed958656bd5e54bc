"""Define a question to a source of answers: some of its numbers, and the claimed epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.auditing.black_box.drawn_answers import Feature
from dprelease.numerics.lattice import Integers
from dprelease.privacy.accounting import FINE, ROUGH, epsilon_at
from dprelease.privacy.priced_vector import PricedVector

OTHER_DELTAS = tuple(map(Fraction, ("1e-4", "1e-3", "1e-2", "3e-2", "0.1", "0.2", "0.4")))
"""Other deltas at which the claim is tested: a million draws show little about rarer events."""

NUMBERS, CHOICES, REPETITION = "numbers", "choices", "repetition"


@dataclass(frozen=True, eq=False)
class Claim:
    """The epsilon claimed at a delta, and the accountant's epsilon at others."""

    delta: Fraction
    epsilon: float
    curve: Callable[[Fraction], float] | None = None
    known: dict[Fraction, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, vectors: Sequence[PricedVector], delta: Fraction, epsilon: float | None = None
    ) -> Claim:
        """Return the accountant's claim for vectors; `epsilon`: a promise made at `delta`."""
        vector_list = tuple(vectors)
        price = _epsilon_of(vector_list, delta) if epsilon is None else epsilon
        return cls(delta, price, lambda other: epsilon_at(vector_list, other, ROUGH))

    def at(self, delta: Fraction) -> float:
        """Return the epsilon at a delta; infinity if none is claimed."""
        if delta == self.delta:
            return self.epsilon
        if delta not in self.known:
            epsilon = math.inf if self.curve is None else self.curve(delta)
            # What holds at a smaller delta holds at a larger one.
            self.known[delta] = min(epsilon, self.epsilon) if delta > self.delta else epsilon
        return self.known[delta]

    @property
    def deltas(self) -> tuple[Fraction, ...]:
        """Return the deltas for which bounds are computed: the release's own first."""
        if self.curve is None:
            return (self.delta,)
        return (self.delta, *(delta for delta in OTHER_DELTAS if delta > self.delta))


@lru_cache(maxsize=512)
def _epsilon_of(vectors: tuple[PricedVector, ...], delta: Fraction) -> float:
    return epsilon_at(vectors, delta, FINE)


@dataclass(frozen=True, eq=False)
class Question:
    """Some of an answer's numbers, and the joint claim for them.

    `numbers`: their indices in an answer; `moved`: of those in which the tables differ.
    """

    query: str
    column: str
    mechanism: str
    numbers: Integers
    moved: Integers
    claim: Claim
    style: str = NUMBERS

    @property
    def deltas(self) -> tuple[Fraction, ...]:
        """Return the deltas for bounds; with few answers only the release's own."""
        return (self.claim.delta,) if self.style == REPETITION else self.claim.deltas


def make_question(
    features: Sequence[Feature],
    columns: frozenset[tuple[str, str]] | None,
    claim: Claim,
    named: tuple[str, str, str],
    style: str = NUMBERS,
) -> Question | None:
    """Return the question of some columns, or of all; None if the tables don't differ.

    `columns`: names of queries and measurements. `named`: query, column and mechanism for the
    output.
    """
    places = [
        i for i, f in enumerate(features) if columns is None or (f.query, f.column) in columns
    ]
    moved = [i for i in places if features[i].moved]
    if not moved or not math.isfinite(claim.epsilon):
        return None
    query, column, mechanism = named
    return Question(query, column, mechanism, np.array(places), np.array(moved), claim, style)
