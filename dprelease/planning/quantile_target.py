"""The rank of a quantile in a cell, and the distance of candidates from it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Integers
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.quantile import Quantile

BEYOND = 0.05
"""Maximum probability that a published minimum or maximum lies outside the cell's values.

It holds for cells of enough rows: `rows_inside`, or three times as many where both ends are
published in order.
"""


def rows_inside(aggregate: Aggregate, mechanism: Randomizer) -> int:
    """Return k, if the k-th value from an end is sought instead of the end itself; otherwise 0.

    Every candidate outside the values has no row, and most of these lie far away: all of them
    together must not outweigh a good one. Each lies k rows from the k-th value, so that a candidate
    that far from it, or farther, is selected with a probability of at most `BEYOND`.

    In a cell of n < k rows there is no such value: all candidates up to the smallest value are
    equally good for the largest one, with a score of n - k, and those above the largest value have
    -k.

    Both ends are put in order. With e^(-k / scale) <= 1 / (20 N) for N candidates, the value
    selected as the largest lies above all values with a probability of at most (N - 1) / (20 N);
    the one selected as the smallest, with at most N e^(-(n - k + 1) / scale). From n = 3 k - 1 on
    the latter is at most 1 / (400 N), and both together are below 1 / 20.
    """
    return max(1, mechanism.half_width(1.0 - BEYOND)) if aggregate.part in (0, 1) else 0


@dataclass(frozen=True, slots=True)
class Target:
    """The rank a n / b among n values; scores are those of `Quantile`.

    A candidate with `below` values below it and `upto` of them below or at it holds the rank if b
    `below` - a n <= `least` and b `upto` - a n >= `most`.
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
        """Return minus the distances of the rank from those of candidates, b points per row."""
        passed = self.b * below - self.a * total - self.least
        short = self.a * total + self.most - self.b * upto
        scores: Integers = -np.maximum(np.maximum(passed, short), 0)
        return scores

    def near(self, upto: Integers, total: int, reach: int) -> tuple[int, int]:
        """Return first and last + 1 of a range; all others are at least `reach` below the best.

        `upto` (candidates,) ascends. So scores rise up to the first candidate that reaches the rank
        from below, and never rise from there on.
        """
        crossing = self._first(upto, self.a * total + self.most)
        neighbours = [i for i in (crossing - 1, crossing) if 0 <= i < len(upto)]
        best = max(
            int(self.scores(int(upto[i - 1]) if i else 0, int(upto[i]), total)) for i in neighbours
        )
        far = reach - best
        first = self._first(upto, self.a * total + self.most + 1 - far)
        passed = self.a * total + self.least + far
        last = 1 + self._first(upto, passed) if passed > 0 else 0
        return first, min(last, len(upto))

    def _first(self, upto: Integers, points: int) -> int:
        """Return the first candidate with b `upto` of at least `points`."""
        return bisect_left(upto, -(-points // self.b))  # numpy would convert all of them
