"""Compute the change of each cell between the two sides of a stack, or of one pair.

The change of a choice in a cell is the largest change of the difference between the scores of any
two candidates, because this change determines the privacy cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dprelease.auditing.exact_pairs import MeasuredCells
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Integers
from dprelease.planning.quantile_target import RankTarget, rank_shift
from dprelease.query.aggregates.aggregate import Aggregate, narrow_aggregate
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.tree_of_counts import Tree

Changes = dict[int, list[int]]
"""The changes of all changed cells by pair, in steps of the noise or in points of the score."""


def changes_of(
    aggregate: Aggregate, mechanism: Randomizer, one: MeasuredCells, other: MeasuredCells
) -> Changes:
    """Return the changes of a measurement between the two sides, by pair."""
    if not aggregate.is_choice:
        return _vector_changes(one, other)
    return CHANGES_BY_AGGREGATE[type(aggregate)](aggregate, mechanism, one, other)


def _vector_changes(one: MeasuredCells, other: MeasuredCells) -> Changes:
    """Return the differences of the values of all cells, except zeros, by pair."""
    pair = np.concatenate((one.pair, other.pair))
    cell = np.concatenate((one.cell, other.cell))
    differences = np.concatenate((one.value, -other.value))
    order = np.lexsort((cell, pair))
    pair, cell, differences = pair[order], cell[order], differences[order]
    first = np.flatnonzero((np.diff(pair, prepend=-1) != 0) | (np.diff(cell, prepend=-1) != 0))
    sums = np.add.reduceat(differences, first) if len(first) else differences
    changes: Changes = {}
    for at, by in zip(pair[first].tolist(), sums.tolist(), strict=True):
        if by:
            changes.setdefault(at, []).append(by)
    return changes


DifferingCells = Iterator[tuple[int, Integers, Integers, Integers]]


def _differing_cells(one: MeasuredCells, other: MeasuredCells) -> DifferingCells:
    """Yield the pair, the candidates, and the counts on both sides of each differing cell."""
    by_cell: dict[tuple[int, int], dict[int, list[int]]] = {}
    for side, found in enumerate((one, other)):
        entries = zip(
            found.pair.tolist(), found.cell.tolist(), found.candidate.tolist(),
            found.value.tolist(), strict=True,
        )  # fmt: skip
        for pair, cell, candidate, value in entries:
            counts_of_candidate = by_cell.setdefault((pair, cell), {}).setdefault(candidate, [0, 0])
            counts_of_candidate[side] += value
    for (pair, _), of_cell in by_cell.items():
        if any(counts[0] != counts[1] for counts in of_cell.values()):
            candidates = np.array(sorted(of_cell), dtype=np.int64)
            both = np.array([of_cell[c] for c in candidates.tolist()], dtype=np.int64)
            yield pair, candidates, both[:, 0], both[:, 1]


def _frequent_changes(
    aggregate: Aggregate, _mechanism: Randomizer, one: MeasuredCells, other: MeasuredCells
) -> Changes:
    """Return the largest change of the difference between two counts of a cell, by pair."""
    changes: Changes = {}
    for pair, candidates, left, right in _differing_cells(one, other):
        difference = left - right
        rest = [] if len(candidates) == aggregate.candidates else [0]
        every = [*difference.tolist(), *rest]
        changes.setdefault(pair, []).append(max(every) - min(every))
    return changes


def _quantile_changes(
    aggregate: Aggregate, mechanism: Randomizer, one: MeasuredCells, other: MeasuredCells
) -> Changes:
    """Return the largest change of the difference between two scores of a cell, by pair."""
    quantile = narrow_aggregate(aggregate, Quantile)
    target = RankTarget.of(quantile, rank_shift(quantile, mechanism))
    changes: Changes = {}
    for pair, candidates, left, right in _differing_cells(one, other):
        # Scores change only at values that occur in the cell, and at the next candidate.
        at = np.unique(np.concatenate(([0], candidates, candidates + 1)))
        at = at[at < quantile.candidates]
        score_difference = _scores(target, at, candidates, left) - _scores(
            target, at, candidates, right
        )
        changes.setdefault(pair, []).append(int(score_difference.max() - score_difference.min()))
    return changes


def _scores(target: RankTarget, at: Integers, candidates: Integers, counts: Integers) -> Integers:
    """Return the scores of the candidates `at`, from the counts of the candidates that occur.

    For an end of an interval, the score of the additional candidate follows.
    """
    upto = np.concatenate(([0], np.cumsum(counts)))
    below = upto[np.searchsorted(candidates, at, side="left")]
    counts_at = upto[np.searchsorted(candidates, at, side="right")]
    scores = target.scores(below, counts_at, int(upto[-1]))
    return np.append(scores, target.scores_outside(int(upto[-1]))) if target.side else scores


def _tree_changes(
    aggregate: Aggregate, _mechanism: Randomizer, one: MeasuredCells, other: MeasuredCells
) -> Changes:
    """Return the changes of all nodes of the trees of counts, by pair."""
    levels = narrow_aggregate(aggregate, Tree).levels
    changes: Changes = {}
    for pair, candidates, left, right in _differing_cells(one, other):
        for level in range(1, levels + 1):
            nodes = candidates >> (levels - level)
            difference = np.bincount(nodes - nodes[0], weights=left - right).astype(np.int64)
            changes.setdefault(pair, []).extend(difference[difference != 0].tolist())
    return changes


ChangesFunction = Callable[[Aggregate, Randomizer, MeasuredCells, MeasuredCells], Changes]

CHANGES_BY_AGGREGATE: dict[type[Aggregate], ChangesFunction] = {
    Frequent: _frequent_changes,
    Quantile: _quantile_changes,
    Tree: _tree_changes,
}
"""The function that computes the changes of scores, or of a tree's nodes, by type of aggregate."""
