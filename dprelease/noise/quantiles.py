"""Select a quantile for every cell by the exponential mechanism."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.results.true_table import DenseProfile, Profile
from dprelease.mechanisms.selection.exponential import NEGLIGIBLE_EXPONENT, Exponential
from dprelease.mechanisms.selection.selection import ScoreRuns
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers, LazyUniform
from dprelease.planning.quantile_target import RankTarget, rank_shift
from dprelease.query.aggregates.quantile import Quantile

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
    previous[starts[:-1][sizes > 0]] = -1
    lengths[gap_before] = values - previous - 1
    ends = np.full(cells, -1, dtype=np.int64)
    ends[sizes > 0] = values[starts[1:][sizes > 0] - 1]
    lengths[last_gap] = aggregate.candidates - 1 - ends
    return ScoreRuns(2 * starts + more * np.arange(cells + 1), scores, lengths).nonempty_runs()
