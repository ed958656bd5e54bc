"""The rank of a quantile in a cell, and the distance of candidates from this rank."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Integers
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.quantile import Quantile

OUTSIDE_PROBABILITY = 0.05
"""Maximum probability that a published minimum or maximum lies outside the cell's values.

It holds for cells with at least `rank_from_end` rows, or three times as many rows if both the
minimum and the maximum are published, in order.
"""


def rank_from_end(aggregate: Aggregate, mechanism: Randomizer) -> int:
    """Return k if a minimum or maximum is defined as the k-th value from the end; otherwise 0.

    Many candidates lie outside the values of a cell, and most of them far away. The noise must not
    select such a candidate instead of a good one. Each such candidate has a distance of k rows
    from the k-th value, so the probability that the noise selects a candidate at this distance or
    farther is at most `OUTSIDE_PROBABILITY`.

    A cell of n < k rows has no k-th value. For the maximum, all candidates up to the smallest value
    then have the score n - k, and all candidates above the largest value have the score -k.

    The published minimum and maximum are put in order. With e^(-k / scale) <= 1 / (20 N) for N
    candidates, the selected maximum lies above all values with a probability of at most (N - 1) /
    (20 N), and the selected minimum with a probability of at most N e^(-(n - k + 1) / scale). For n
    >= 3 k - 1 the second probability is at most 1 / (400 N), and the sum of both is below 1 / 20.
    """
    return (
        max(1, mechanism.half_width(1.0 - OUTSIDE_PROBABILITY)) if aggregate.part in (0, 1) else 0
    )


@dataclass(frozen=True, slots=True)
class RankTarget:
    """The rank a n / b among n values, with the scores of `Quantile`.

    A candidate with `below` values below it, and `upto` values below or equal to it, holds the rank
    if b `below` - a n <= `least` and b `upto` - a n >= `most`.
    """

    a: int
    b: int
    least: int = 0
    most: int = 0

    @classmethod
    def of(cls, aggregate: Quantile, k: int) -> RankTarget:
        """Return the target of a quantile; for minimum and maximum, the k-th value, k > 0."""
        a, b = aggregate.at.numerator, aggregate.at.denominator
        if aggregate.at not in (0, 1):
            return cls(a, b)
        # The k-th of n values is x with fewer than k below x, and at least k up to x.
        return cls(a, b, k - 1, k) if a == 0 else cls(a, b, -k, 1 - k)

    def scores(
        self, below: Integers | int, upto: Integers | int, total: Integers | int
    ) -> Integers:
        """Return minus the distances of candidates from the rank, with b points for each row."""
        points_above_rank = self.b * below - self.a * total - self.least
        points_below_rank = self.a * total + self.most - self.b * upto
        scores: Integers = -np.maximum(np.maximum(points_above_rank, points_below_rank), 0)
        return scores

    def indexes_near_best(self, upto: Integers, total: int, reach: int) -> tuple[int, int]:
        """Return the first index, and the last index + 1, of the candidates near the best score.

        All other candidates have scores at least `reach` below the best score. `upto`, of shape
        (candidates,), is sorted. So scores rise up to the first candidate that reaches the rank
        from below, and never rise after it.
        """
        crossing = self._first_reaching(upto, self.a * total + self.most)
        neighbours = [i for i in (crossing - 1, crossing) if 0 <= i < len(upto)]
        best = max(
            int(self.scores(int(upto[i - 1]) if i else 0, int(upto[i]), total)) for i in neighbours
        )
        far = reach - best
        first = self._first_reaching(upto, self.a * total + self.most + 1 - far)
        points_above_rank = self.a * total + self.least + far
        last = 1 + self._first_reaching(upto, points_above_rank) if points_above_rank > 0 else 0
        return first, min(last, len(upto))

    def _first_reaching(self, upto: Integers, points: int) -> int:
        """Return the index of the first candidate for which b `upto` is at least `points`."""
        return bisect_left(upto, -(-points // self.b))  # numpy would convert the whole array
