"""Which rank a quantile has among the values of a cell, and how far a candidate lies from it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Integers
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.quantile import Quantile

BEYOND = 0.05
"""Chance, at most, that what is published as the largest or smallest value of a cell of enough rows
lies beyond it: of `rows_inside`, or of three times as many where both ends are published in order.
"""


def rows_inside(aggregate: Aggregate, law: Randomizer) -> int:
    """Return k, where the k-th value from an end is looked for in place of the first; else 0.

    Every candidate beyond the last value holds no row, and most of these lie far away: all of them
    together may not weigh as much as a good one. Each lies k rows from the k-th value, so that some
    candidate is chosen as far from it, or farther, with a chance of at most `BEYOND`.

    In a cell of n < k rows there is no such value: all candidates up to the smallest value are as
    good for the largest one, with a score of n - k, and those beyond it have -k.

    Both ends are put in order. With e^(-k / scale) <= 1 / (20 N) for N candidates, what was chosen
    as the largest value lies beyond it with a chance of at most (N - 1) / (20 N); what was chosen
    as the smallest one, with one of at most N e^(-(n - k + 1) / scale). From n = 3 k - 1 on the
    latter is at most 1 / (400 N), and both together are below 1 / 20.
    """
    return max(1, law.half_width(1.0 - BEYOND)) if aggregate.part in (0, 1) else 0


@dataclass(frozen=True, slots=True)
class Target:
    """The rank a n / b, n values in all; scores as `Quantile` has them.

    A candidate with `below` values below it and `upto` of them below or at it holds the rank if
    b `below` - a n <= `least` and b `upto` - a n >= `most`.
    """

    a: int
    b: int
    least: int = 0
    most: int = 0

    @classmethod
    def of(cls, aggregate: Quantile, k: int) -> Target:
        """Return the rank of a quantile; for the ends, that of the k-th value from there, k > 0."""
        a, b = aggregate.at.numerator, aggregate.at.denominator
        if aggregate.at not in (0, 1):
            return cls(a, b)
        # The k-th of n values is x with fewer than k below x, and at least k up to x.
        return cls(a, b, k - 1, k) if a == 0 else cls(a, b, -k, 1 - k)

    def scores(
        self, below: Integers | int, upto: Integers | int, total: Integers | int
    ) -> Integers:
        """Return minus the distances of the rank from those that candidates hold, b to a row."""
        passed = self.b * below - self.a * total - self.least
        short = self.a * total + self.most - self.b * upto
        scores: Integers = -np.maximum(np.maximum(passed, short), 0)
        return scores

    def near(self, upto: Integers, total: int, reach: int) -> tuple[int, int]:
        """Return first and last + 1 of a stretch; all others are `reach` below the best, or more.

        `upto` (candidates,) ascends. So scores rise up to the first candidate that reaches the rank
        from below, and never rise from there on.
        """
        crossing = self._first(upto, self.a * total + self.most)
        beside = [i for i in (crossing - 1, crossing) if 0 <= i < len(upto)]
        best = max(
            int(self.scores(int(upto[i - 1]) if i else 0, int(upto[i]), total)) for i in beside
        )
        far = reach - best
        first = self._first(upto, self.a * total + self.most + 1 - far)
        passed = self.a * total + self.least + far
        last = 1 + self._first(upto, passed) if passed > 0 else 0
        return first, min(last, len(upto))

    def _first(self, upto: Integers, points: int) -> int:
        """Return the first candidate with b `upto` of at least `points`."""
        return bisect_left(upto, -(-points // self.b))  # numpy would convert all of them
