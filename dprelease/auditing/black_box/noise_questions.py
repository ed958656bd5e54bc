"""Define a question about the answers of a source: some of their numbers, and a claimed epsilon."""

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
"""Deltas at which the claim is tested in addition to the delta of the release.

Smaller deltas are not tested, because a million answers show little about rarer events.
"""

NUMBERS, CHOICES, REPETITION = "numbers", "choices", "repetition"


@dataclass(frozen=True, eq=False)
class Claim:
    """The epsilon claimed at a delta, and the epsilon of the accountant at other deltas."""

    delta: Fraction
    epsilon: float
    epsilon_at_delta: Callable[[Fraction], float] | None = None
    computed: dict[Fraction, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, vectors: Sequence[PricedVector], delta: Fraction, epsilon: float | None = None
    ) -> Claim:
        """Return the privacy loss that the accountant claims for the publication of some vectors.

        `epsilon` is the epsilon that the release claims at `delta`. By default, it is the epsilon
        that the accountant computes.
        """
        vector_list = tuple(vectors)
        claimed = _cached_epsilon(vector_list, delta) if epsilon is None else epsilon
        return cls(delta, claimed, lambda other: epsilon_at(vector_list, other, ROUGH))

    def at(self, delta: Fraction) -> float:
        """Return the claimed epsilon at a delta; infinity if there is no claim at this delta."""
        if delta == self.delta:
            return self.epsilon
        if delta not in self.computed:
            epsilon = math.inf if self.epsilon_at_delta is None else self.epsilon_at_delta(delta)
            # An epsilon that holds at a smaller delta also holds at a larger delta.
            self.computed[delta] = min(epsilon, self.epsilon) if delta > self.delta else epsilon
        return self.computed[delta]

    @property
    def deltas(self) -> tuple[Fraction, ...]:
        """Return the deltas at which bounds are computed, of which the first is the release's."""
        if self.epsilon_at_delta is None:
            return (self.delta,)
        return (self.delta, *(delta for delta in OTHER_DELTAS if delta > self.delta))


@lru_cache(maxsize=512)
def _cached_epsilon(vectors: tuple[PricedVector, ...], delta: Fraction) -> float:
    """Return the epsilon of the accountant for vectors at a delta, which is computed once."""
    return epsilon_at(vectors, delta, FINE)


@dataclass(frozen=True, eq=False)
class Question:
    """A question: some numbers of an answer, and the claim about these numbers together.

    `numbers` has the indices of the numbers in an answer, and `differing` the indices of those
    numbers in which the two tables differ. `style` says which statistics are tried.
    """

    query: str
    column: str
    mechanism: str
    numbers: Integers
    differing: Integers
    claim: Claim
    style: str = NUMBERS

    @property
    def deltas(self) -> tuple[Fraction, ...]:
        """Return the deltas at which bounds are computed.

        There are few answers for questions about repetitions, so these have one delta.
        """
        return (self.claim.delta,) if self.style == REPETITION else self.claim.deltas


def make_question(
    features: Sequence[Feature],
    columns: frozenset[tuple[str, str]] | None,
    claim: Claim,
    label: tuple[str, str, str],
    style: str = NUMBERS,
) -> Question | None:
    """Return the question about some or all columns; None if the tables don't differ in them.

    `columns` has the name of the query and of the measurement of each column, and is None for all
    columns. `label` has the query, the column and the mechanism that the outcome of the audit
    names.
    """
    places = [
        i for i, f in enumerate(features) if columns is None or (f.query, f.column) in columns
    ]
    differing = [i for i in places if features[i].differing]
    if not differing or not math.isfinite(claim.epsilon):
        return None
    query, column, mechanism = label
    return Question(query, column, mechanism, np.array(places), np.array(differing), claim, style)
