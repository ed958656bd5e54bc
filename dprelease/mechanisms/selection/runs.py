"""Candidates of many cells, encoded as runs of equal scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Integers


@dataclass(frozen=True, slots=True)
class ScoreRuns:
    """Candidates of many cells, as runs of equal scores.

    Cell c has the runs from `starts[c]` to `starts[c + 1]` - 1, and run i has `lengths[i]`
    candidates of the score `scores[i]`. `starts` has the shape (cells + 1,), `scores` and `lengths`
    have the shape (runs,). Every cell has a run, and every run has a candidate. The candidates of a
    cell are numbered from 0 through its runs in order.
    """

    starts: Integers
    scores: Integers
    lengths: Integers

    @property
    def cell_count(self) -> int:
        """Return the number of cells."""
        return len(self.starts) - 1

    def nonempty_runs(self) -> ScoreRuns:
        """Return only the runs that have at least one candidate."""
        is_nonempty = self.lengths > 0
        new_numbers = np.concatenate(([0], np.cumsum(is_nonempty)))
        return ScoreRuns(
            new_numbers[self.starts], self.scores[is_nonempty], self.lengths[is_nonempty]
        )

    def __iter__(self) -> Iterator[tuple[Integers, Integers]]:
        for first, last in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            yield self.scores[first:last], self.lengths[first:last]


def one_run_per_candidate(scores: Integers) -> ScoreRuns:
    """Return the runs of (cells, candidates) scores, with one run per candidate."""
    cells, candidates = scores.shape
    starts: Integers = np.arange(cells + 1, dtype=np.int64) * candidates
    return ScoreRuns(starts, scores.ravel(), np.ones(scores.size, dtype=np.int64))
