"""Define a question about the answers of a source: some numbers, and the epsilon claimed."""

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
"""Other deltas at which the claim is tested. They are not smaller, because a million draws show
little about rarer events."""

NUMBERS, CHOICES, REPETITION = "numbers", "choices", "repetition"


@dataclass(frozen=True, eq=False)
class Claim:
    """The epsilon claimed at a delta, and the epsilon of the accountant at other deltas."""

    delta: Fraction
    epsilon: float
    curve: Callable[[Fraction], float] | None = None
    known: dict[Fraction, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, vectors: Sequence[PricedVector], delta: Fraction, epsilon: float | None = None
    ) -> Claim:
        """Return the claim of the accountant for vectors; `epsilon` is the declared one at
        `delta`."""
        vector_list = tuple(vectors)
        price = _epsilon_of(vector_list, delta) if epsilon is None else epsilon
        return cls(delta, price, lambda other: epsilon_at(vector_list, other, ROUGH))

    def at(self, delta: Fraction) -> float:
        """Return the claimed epsilon at a delta; infinity if none is claimed."""
        if delta == self.delta:
            return self.epsilon
        if delta not in self.known:
            epsilon = math.inf if self.curve is None else self.curve(delta)
            # An epsilon that holds at a smaller delta also holds at a larger one.
            self.known[delta] = min(epsilon, self.epsilon) if delta > self.delta else epsilon
        return self.known[delta]

    @property
    def deltas(self) -> tuple[Fraction, ...]:
        """Return the deltas for which bounds are computed, starting with the delta of the
        release."""
        if self.curve is None:
            return (self.delta,)
        return (self.delta, *(delta for delta in OTHER_DELTAS if delta > self.delta))


@lru_cache(maxsize=512)
def _epsilon_of(vectors: tuple[PricedVector, ...], delta: Fraction) -> float:
    return epsilon_at(vectors, delta, FINE)


@dataclass(frozen=True, eq=False)
class Question:
    """Some numbers of an answer, and the claim about all these numbers together.

    `numbers` are the indices of the numbers in an answer, and `moved` the indices of those numbers
    in which the tables differ.
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
        """Return the deltas for bounds; if answers are few, only the delta of the release."""
        return (self.claim.delta,) if self.style == REPETITION else self.claim.deltas


def make_question(
    features: Sequence[Feature],
    columns: frozenset[tuple[str, str]] | None,
    claim: Claim,
    named: tuple[str, str, str],
    style: str = NUMBERS,
) -> Question | None:
    """Return the question about some or all columns; None if the tables don't differ in them.

    `columns` has the names of the query and the measurement of each column. `named` has the query,
    the column and the mechanism that the outcome shows.
    """
    places = [
        i for i, f in enumerate(features) if columns is None or (f.query, f.column) in columns
    ]
    moved = [i for i in places if features[i].moved]
    if not moved or not math.isfinite(claim.epsilon):
        return None
    query, column, mechanism = named
    return Question(query, column, mechanism, np.array(places), np.array(moved), claim, style)
