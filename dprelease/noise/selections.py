"""Select candidates for every cell: quantiles and most frequent values.

Several quantiles of a column are read from one tree of noised counts. Each node of the tree gets
separate noise once. No noise is drawn for nodes that no quantile visits, which is equivalent
to drawing and ignoring it. Only the noised counts decide which path each quantile takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.selection.exponential import NEGLIGIBLE_EXPONENT, Exponential
from dprelease.mechanisms.selection.permute_and_flip import PermuteAndFlip
from dprelease.mechanisms.selection.selection import ScoreRuns
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers, LazyUniform, sample
from dprelease.planning.plan import PlannedColumn
from dprelease.planning.quantile_target import RankTarget, end_width, rank_shift
from dprelease.query.aggregates.aggregate import Aggregate, narrow_aggregate
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.tree_of_counts import Tree
from dprelease.query.measurement import Measurement, quantile_vector_name

# Select a quantile for every cell by the exponential mechanism.

MOST_PAIRS = 2**20
"""Maximum number of pairs of a cell and a value that are processed together, to limit memory."""


def select_quantiles(
    profile: Profile | DenseProfile, aggregate: Quantile, mechanism: Exponential, bits: BitSource
) -> Integers:
    """Return the selected value (cells,) of every cell, in steps of the column.

    An upper end is the largest value that is rounded down to the selected candidate.
    """
    target = RankTarget.of(aggregate, rank_shift(aggregate, mechanism))
    if isinstance(profile, DenseProfile):
        choices = _select_dense(profile.upto, target, mechanism, bits)
    else:
        choices = np.empty(len(profile.starts) - 1, dtype=np.int64)
        for cells, block in profile.blocks(MOST_PAIRS):
            choices[cells] = mechanism.choose_from_runs(
                quantile_runs(block, aggregate, target), bits
            )
    if aggregate.side:  # the additional candidate, which is the last one, stands for the bound
        is_outside = choices == aggregate.candidates
        choices[is_outside] = 0 if aggregate.side < 0 else aggregate.candidates - 1
    steps: Integers = choices * aggregate.stride + aggregate.lower
    return (
        np.minimum(steps + aggregate.stride - 1, aggregate.upper) if aggregate.side > 0 else steps
    )


def _select_dense(
    sums: NDArray[Any], target: RankTarget, mechanism: Exponential, bits: BitSource
) -> Integers:
    """Return the index (cells,) of the selected candidate of every cell.

    `sums` has the shape (cells, candidates), and counts the rows with values up to each candidate.
    The function computes the scores near the quantile, and all scores only if these don't decide.
    """
    largest_distance = math.ceil(NEGLIGIBLE_EXPONENT * mechanism.scale) + 1
    words = bits.words(len(sums))
    choices = np.empty(len(sums), dtype=np.int64)
    for cell, upto in enumerate(sums):
        first, last_gap = target.indexes_near_best(upto, int(upto[-1]), largest_distance)
        scores = _candidate_scores(upto, first, last_gap, target)
        word, near = int(words[cell]), last_gap - first
        ones = np.ones(len(scores), dtype=np.int64)
        # Scores outside are too low to matter, but their number is part of the error bound.
        selected = mechanism.choose_by_word(scores, ones, word, len(upto) - near)
        if selected is None:
            every_score = _candidate_scores(upto, 0, len(upto), target)
            uniform = LazyUniform(bits, word)
            choices[cell] = mechanism.choose_exactly(
                every_score, np.ones(len(every_score), dtype=np.int64), uniform
            )
        else:
            choices[cell] = first + selected if selected < near else len(upto)
    return choices


def _candidate_scores(
    upto: NDArray[Any], first: int, last_gap: int, target: RankTarget
) -> Integers:
    """Return the scores of the candidates of one cell from `first` to `last_gap` - 1.

    For an end, the score of the additional candidate follows.
    """
    counts_here, total = upto[first:last_gap].astype(np.int64), int(upto[-1])
    before = counts_here.copy()
    before[1:] = counts_here[:-1]
    before[:1] = upto[first - 1] if first else 0
    scores = target.scores(before, counts_here, total)
    return np.append(scores, target.scores_outside(total)) if target.side else scores


def quantile_runs(profile: Profile, aggregate: Quantile, target: RankTarget) -> ScoreRuns:
    """Return the candidates of every cell as runs of equal scores.

    Each value that occurs is one run, and each gap between two such values is one run. So the
    running time depends only on the number of values that occur. The additional candidate of an end
    is the last run of its cell.
    """
    starts, values, counts = profile.starts, profile.values, profile.counts
    cells, pairs = len(starts) - 1, len(values)
    more = 2 if target.side else 1  # runs after the last value of a cell
    sizes = np.diff(starts)
    cell = np.repeat(np.arange(cells), sizes)
    sums = np.cumsum(counts)
    rows_before_cell = np.concatenate(([0], sums))[starts[:-1]]
    total = np.concatenate(([0], sums))[starts[1:]] - rows_before_cell
    upto = sums - rows_before_cell[cell]
    # The runs of a cell are the gap before each value and the value itself, and then the last gap.
    gap_before = 2 * np.arange(pairs) + more * cell  # index of the run of the gap before each pair
    last_gap = 2 * starts[1:] + more * np.arange(cells)
    scores = np.empty(2 * pairs + more * cells, dtype=np.int64)
    lengths = np.ones_like(scores)
    below = upto - counts
    scores[gap_before] = target.scores(below, below, total[cell])
    scores[gap_before + 1] = target.scores(below, upto, total[cell])
    scores[last_gap] = target.scores(total, total, total)
    if target.side:
        scores[last_gap + 1] = target.scores_outside(total)
    previous = np.concatenate(([-1], values[:-1])) if pairs else values
    # The first gap of a cell begins at candidate 0.
    previous[starts[:-1][sizes > 0]] = -1
    lengths[gap_before] = values - previous - 1
    ends = np.full(cells, -1, dtype=np.int64)
    ends[sizes > 0] = values[starts[1:][sizes > 0] - 1]
    lengths[last_gap] = aggregate.candidates - 1 - ends
    return ScoreRuns(2 * starts + more * np.arange(cells + 1), scores, lengths).nonempty_runs()


def tree_quantiles(
    exact: ExactTable, column: PlannedColumn, bits: BitSource
) -> dict[str, Integers]:
    """Return all quantiles of one tree by name, as arrays (cells,) in steps of the column."""
    measurement, mechanism = column.measurement, column.mechanism
    tree = narrow_aggregate(measurement.aggregate, Tree)
    if not isinstance(mechanism, Mechanism):
        raise TypeError("a tree has counts and noise")
    profile = exact.profile(measurement.name)
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    selected = tree_selections(column)
    confidence = float(_tree_confidence(column) or 0)
    paths: list[_QuantilePaths | _EndPaths] = [
        _QuantilePaths([at for at, side in selected if not side]),
        *(
            _EndPaths(at, side, end_width(mechanism, tree.levels, at, confidence))
            for at, side in selected
            if side
        ),
    ]
    leaves = _descend_tree(profile, tree, mechanism, paths, bits)
    found = {}
    for (at, side), leaf in zip(selected, leaves, strict=True):
        steps = leaf * tree.stride + tree.lower
        if side > 0:  # the largest value that is rounded down to the candidate
            steps = np.minimum(steps + tree.stride - 1, tree.upper)
        found[quantile_vector_name(measurement.name, at, side)] = steps
    return found


def tree_selections(column: PlannedColumn) -> list[tuple[Fraction, int]]:
    """Return the quantiles and the ends of intervals that are read from one tree, in order.

    Each item is a fraction of values, and the side of an end or 0; the quantiles come first.
    """
    parts = [c.at for c in column.query.columns if c.parts[0] == column.measurement]
    ranks = sorted({at for at in parts if at is not None})
    sides = (0,) if _tree_confidence(column) is None else (0, -1, 1)
    return [(at, side) for side in sides for at in ranks]


def _tree_confidence(column: PlannedColumn) -> Fraction | None:
    """Return the largest confidence of the intervals that are read from a tree; None without."""
    columns = [c for c in column.query.columns if c.parts[0] == column.measurement]
    return max((c.interval for c in columns if c.interval is not None), default=None)


class _QuantilePaths:
    """The paths of quantiles through a tree.

    At each node, a quantile is a fraction of the noised count of the node, and its path descends to
    the half of the node that contains this fraction. So if two quantiles are in one node, the
    larger quantile never descends to the left of the smaller quantile.
    """

    def __init__(self, ranks: list[Fraction]) -> None:
        self.size = len(ranks)
        self._fraction: Floats = np.array([[float(at)] for at in ranks])

    def goes_left(self, left: Integers, right: Integers) -> Flags:
        """Return which paths (paths, cells) go left, from the noised counts of both halves."""
        below, above = (np.maximum(half.astype(np.float64), 0.0) for half in (left, right))
        is_empty = below + above == 0.0  # an empty node has two equal halves
        below, above = np.where(is_empty, 1.0, below), np.where(is_empty, 1.0, above)
        goal = self._fraction * (below + above)
        # An empty half has no values to descend to, even for the fraction 0.
        left_side: Flags = (goal <= below) & (below > 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            fraction = np.where(left_side, goal / below, (goal - below) / above)
        self._fraction = np.clip(np.nan_to_num(fraction, nan=1.0), 0.0, 1.0)
        return left_side


class _EndPaths:
    """The path of one end of an interval through a tree (`planning/quantile_target.py`).

    The path compares noised counts of all rows on both sides of the middle of its node. A lower end
    goes left unless the quantile is clearly on the right, and an upper end does the reverse.
    """

    size = 1

    def __init__(self, at: Fraction, side: int, width: int) -> None:
        self._side, self._width = side, width
        self._above, self._below = at.numerator, at.denominator - at.numerator
        self._points: Integers = np.zeros((1, 1), dtype=np.int64)

    def goes_left(self, left: Integers, right: Integers) -> Flags:
        """Return which paths (1, cells) go left, from the noised counts of both halves."""
        # b L - a n of the L rows below the middle, among n rows
        points = self._points + self._below * left - self._above * right
        left_side: Flags = points >= -self._width if self._side < 0 else points > self._width
        self._points = self._points + np.where(left_side, -self._above * right, self._below * left)
        return left_side


def _descend_tree(
    profile: Profile,
    tree: Tree,
    mechanism: Mechanism,
    paths: Sequence[_QuantilePaths | _EndPaths],
    bits: BitSource,
) -> Integers:
    """Return the candidate at the end of each path in each cell (paths, cells)."""
    cells = len(profile.starts) - 1
    counter = _RangeCounter(profile, 1 << tree.levels)
    ends = np.cumsum([one.size for one in paths])
    node = np.zeros((int(ends[-1]), cells), dtype=np.int64)  # the first candidate of each node
    at_cell = np.broadcast_to(np.arange(cells), node.shape)
    for level in range(tree.levels):
        half = 1 << (tree.levels - level - 1)
        # Paths that share a node must see the same noise: a second draw for one count would cost
        # again.
        nodes, index_of_node = np.unique(node + at_cell * (1 << tree.levels), return_inverse=True)
        cell, first = nodes >> tree.levels, nodes & ((1 << tree.levels) - 1)
        left = counter.count_between(cell, first, first + half) + sample(
            mechanism.noise_distribution, len(nodes), bits
        )
        right = counter.count_between(cell, first + half, first + 2 * half)
        right = right + sample(mechanism.noise_distribution, len(nodes), bits)
        left, right = (side[index_of_node.reshape(node.shape)] for side in (left, right))
        goes_left = [
            one.goes_left(left[end - one.size : end], right[end - one.size : end])
            for one, end in zip(paths, ends.tolist(), strict=True)
        ]
        node = np.where(np.concatenate(goes_left), node, node + half)
    # The tree has a power of two of leaves, of which the last ones may be no candidates.
    return np.minimum(node, tree.candidates - 1)


class _RangeCounter:
    """Counts, from cumulative sums, the rows of a cell with values in a range of candidates."""

    def __init__(self, profile: Profile, width: int) -> None:
        cell = np.repeat(np.arange(len(profile.starts) - 1), np.diff(profile.starts))
        self._pair_positions = cell * width + profile.values
        self._rows_up_to = np.concatenate(([0], np.cumsum(profile.counts)))
        self._width = width

    def count_between(self, cell: Integers, first: Integers, last: Integers) -> Integers:
        """Return the number of rows with candidates from `first` to `last` - 1."""
        ends = [
            np.searchsorted(self._pair_positions, cell * self._width + x) for x in (first, last)
        ]
        counts: Integers = self._rows_up_to[ends[1]] - self._rows_up_to[ends[0]]
        return counts


MOST_PAIRS = 2**20
"""Maximum number of pairs of a cell and a value that are processed together, to limit memory."""


Choices = Mapping[str, Integers]


def choose_candidates(
    exact: ExactTable, column: PlannedColumn, before: Choices, bits: BitSource
) -> dict[str, Integers]:
    """Return the selected candidates by name, as arrays (cells,).

    A candidate is a number of steps, or the position of a value in its declared list. `before` are
    the selections of earlier measurements; a value that has been selected for a lower rank is not
    selected again.
    """
    return CHOOSERS[type(column.measurement.aggregate)](exact, column, before, bits)


def _choose_tree_quantiles(
    exact: ExactTable, column: PlannedColumn, _before: Choices, bits: BitSource
) -> dict[str, Integers]:
    """Return the quantiles of each cell that are read from a noisy tree."""
    return tree_quantiles(exact, column, bits)


def _choose_quantile(
    exact: ExactTable, column: PlannedColumn, _before: Choices, bits: BitSource
) -> dict[str, Integers]:
    """Return the chosen quantile of each cell."""
    measurement, mechanism = column.measurement, column.mechanism
    if not isinstance(mechanism, Exponential):
        raise TypeError("quantiles are chosen by the exponential mechanism")
    profile = exact.profile(measurement.name)
    aggregate = narrow_aggregate(measurement.aggregate, Quantile)
    return {measurement.name: select_quantiles(profile, aggregate, mechanism, bits)}


def _choose_frequent(
    exact: ExactTable, column: PlannedColumn, before: Choices, bits: BitSource
) -> dict[str, Integers]:
    """Return the chosen value of each cell, which was not chosen for a lower rank."""
    measurement, mechanism = column.measurement, column.mechanism
    if not isinstance(mechanism, Exponential | PermuteAndFlip):
        raise TypeError("frequent values are chosen by a selection mechanism")
    profile = exact.profile(measurement.name)
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    earlier = [before[other.name] for other in _lower_ranks(column)]
    candidates = measurement.aggregate.candidates
    choices = np.empty(len(profile.starts) - 1, dtype=np.int64)
    for cells, block in profile.blocks(max(1, math.ceil(MOST_PAIRS / candidates))):
        scores = block.dense(candidates)
        is_open = np.ones(scores.shape, dtype=np.bool_)
        for taken in earlier:
            np.put_along_axis(is_open, taken[cells, None], False, axis=1)
        choices[cells] = mechanism.choose_allowed(scores, is_open, bits)
    return {measurement.name: choices}


def _lower_ranks(column: PlannedColumn) -> list[Measurement]:
    """Return the measurements of the more frequent values, which have a lower rank than this."""
    measurement = column.measurement
    aggregate = narrow_aggregate(measurement.aggregate, Frequent)
    lower = {replace(aggregate, rank=rank) for rank in range(1, aggregate.rank)}
    return [
        other
        for other in column.query.measurements
        if other.aggregate in lower
        and (other.mechanism, other.own) == (measurement.mechanism, measurement.own)
    ]


Chooser = Callable[[ExactTable, PlannedColumn, Choices, BitSource], dict[str, Integers]]

CHOOSERS: dict[type[Aggregate], Chooser] = {
    Tree: _choose_tree_quantiles,
    Quantile: _choose_quantile,
    Frequent: _choose_frequent,
}
"""Functions that select candidates, by the type of the aggregate."""
