"""Run-length encoded candidates of many cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Integers


@dataclass(frozen=True, slots=True)
class Runs:
    """Candidates of cell c: runs `starts[c]` to `starts[c + 1]`, each of `lengths` equal scores.

    `starts` (cells + 1,), `scores` and `lengths` (runs,); every cell has a run, and every run has a
    candidate. Candidates of a cell are numbered from 0 through its runs in order.
    """

    starts: Integers
    scores: Integers
    lengths: Integers

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return len(self.starts) - 1

    def nonempty_runs(self) -> Runs:
        """Return the runs that have a candidate."""
        some = self.lengths > 0
        places = np.concatenate(([0], np.cumsum(some)))
        return Runs(places[self.starts], self.scores[some], self.lengths[some])

    def __iter__(self) -> Iterator[tuple[Integers, Integers]]:
        """Yield scores and lengths of each cell's runs."""
        for first, last in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            yield self.scores[first:last], self.lengths[first:last]


def single(scores: Integers) -> Runs:
    """Return the runs of (cells, candidates) scores, with one run per candidate."""
    cells, candidates = scores.shape
    starts: Integers = np.arange(cells + 1, dtype=np.int64) * candidates
    return Runs(starts, scores.ravel(), np.ones(scores.size, dtype=np.int64))
