"""Candidates chosen for every cell: quantiles and most frequent values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dprelease.exact.table import ExactTable, Profile
from dprelease.mechanisms.selection.exponential import Exponential
from dprelease.mechanisms.selection.permute_and_flip import PermuteAndFlip
from dprelease.mechanisms.selection.runs import Runs
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers
from dprelease.query.aggregate import Frequent, Quantile
from dprelease.query.measure import Measure
from dprelease.release.plan import PlannedColumn

MOST_PAIRS = 2**20
"""Pairs of a cell and a value that are looked at together, for a bounded memory."""


def chosen(
    exact: ExactTable, column: PlannedColumn, before: Mapping[str, Integers], bits: BitSource
) -> Integers:
    """Return (size,) chosen candidates: lattice steps of a quantile, positions of a declared value.

    `before`: what was chosen for measures ahead of this one; lower ranks are not chosen again.
    """
    measure = column.measure
    profile = exact.profile(measure.name)
    if isinstance(measure.aggregate, Quantile):
        return _quantiles(profile, measure.aggregate, column, bits)
    if not isinstance(measure.aggregate, Frequent):
        raise TypeError("only quantiles and frequent values are chosen")
    earlier = [before[other.name] for other in _lower_ranks(column)]
    return _frequent(profile, measure.aggregate, column, earlier, bits)


def _quantiles(
    profile: Profile, aggregate: Quantile, column: PlannedColumn, bits: BitSource
) -> Integers:
    law = column.mechanism
    if not isinstance(law, Exponential):
        raise TypeError("quantiles are chosen by the exponential mechanism")
    found = np.empty(len(profile.starts) - 1, dtype=np.int64)
    for cells, block in profile.blocks(MOST_PAIRS):
        found[cells] = law.choose_each(quantile_runs(block, aggregate), bits)
    return found * aggregate.stride + aggregate.lower


def quantile_runs(profile: Profile, aggregate: Quantile) -> Runs:
    """Return all candidates of every cell with their scores: values that occur, and gaps between.

    Equal neighbours are one run, so that the work grows with the values that occur.
    """
    a, b = aggregate.at.numerator, aggregate.at.denominator
    starts, values, counts = profile.starts, profile.values, profile.counts
    cells, pairs = len(starts) - 1, len(values)
    sizes = np.diff(starts)
    cell = np.repeat(np.arange(cells), sizes)
    upto = np.cumsum(counts)
    base = np.concatenate(([0], upto))[starts[:-1]]
    total = np.concatenate(([0], upto))[starts[1:]] - base
    below_or_at = upto - base[cell]
    # Of each cell: the gap before each value and the value itself, then the gap after the last.
    at = 2 * np.arange(pairs) + cell  # the gap before pair i
    last = 2 * starts[1:] + np.arange(cells)
    scores = np.empty(2 * pairs + cells, dtype=np.int64)
    lengths = np.empty_like(scores)
    below = below_or_at - counts
    above = total[cell] - below_or_at
    scores[at] = -np.abs((b - a) * below - a * (above + counts))
    scores[at + 1] = -np.abs((b - a) * below - a * above)
    scores[last] = -(b - a) * total
    previous = np.concatenate(([-1], values[:-1])) if pairs else values
    previous[starts[:-1][sizes > 0]] = -1
    lengths[at] = values - previous - 1
    lengths[at + 1] = 1
    ends = np.full(cells, -1, dtype=np.int64)
    ends[sizes > 0] = values[starts[1:][sizes > 0] - 1]
    lengths[last] = aggregate.candidates - 1 - ends
    return Runs(2 * starts + np.arange(cells + 1), scores, lengths).held()


def _frequent(
    profile: Profile,
    aggregate: Frequent,
    column: PlannedColumn,
    earlier: list[Integers],
    bits: BitSource,
) -> Integers:
    law, candidates = column.mechanism, aggregate.candidates
    if not isinstance(law, Exponential | PermuteAndFlip):
        raise TypeError("frequent values are chosen by a selection mechanism")
    found = np.empty(len(profile.starts) - 1, dtype=np.int64)
    for cells, block in profile.blocks(max(1, math.ceil(MOST_PAIRS / candidates))):
        scores = block.dense(candidates)
        is_open = np.ones(scores.shape, dtype=np.bool_)
        for taken in earlier:
            np.put_along_axis(is_open, taken[cells, None], False, axis=1)
        found[cells] = law.choose_open(scores, is_open, bits)
    return found


def _lower_ranks(column: PlannedColumn) -> list[Measure]:
    """Return the measures that chose before this one, among the same values by the same means."""
    measure = column.measure
    wanted = measure.aggregate
    return [
        other
        for other in column.query.measures
        if isinstance(other.aggregate, Frequent)
        and isinstance(wanted, Frequent)
        and other.aggregate.column == wanted.column
        and other.aggregate.rank < wanted.rank
        and (other.mechanism, other.own) == (measure.mechanism, measure.own)
    ]
