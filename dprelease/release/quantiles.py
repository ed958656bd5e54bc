"""Quantiles of every cell by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dprelease.exact.table import DenseProfile, Profile
from dprelease.mechanisms.selection.exponential import FAR, Exponential
from dprelease.mechanisms.selection.runs import Runs
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers
from dprelease.numerics.lazy_uniform import LazyUniform
from dprelease.query.aggregate import Quantile

MOST_PAIRS = 2**20
"""Pairs of a cell and a value that are looked at together, for a bounded memory."""


def quantiles(
    profile: Profile | DenseProfile, aggregate: Quantile, law: Exponential, bits: BitSource
) -> Integers:
    """Return (cells,) chosen values, lattice steps of the column."""
    past = past_the_end(aggregate, law)
    if isinstance(profile, DenseProfile):
        found = _dense(profile.counts, aggregate, past, law, bits)
    else:
        found = np.empty(len(profile.starts) - 1, dtype=np.int64)
        for cells, block in profile.blocks(MOST_PAIRS):
            found[cells] = law.choose_each(quantile_runs(block, aggregate, past), bits)
    return found * aggregate.stride + aggregate.lower


def past_the_end(aggregate: Quantile, law: Exponential) -> int:
    """Return the rows that shall lie beyond a smallest or largest value, signed; else 0.

    Without them every candidate beyond the last value has the best score, and most of these lie far
    away. With scale ln(candidates) rows, all of those together weigh no more than a good one.
    """
    rows = max(1, math.ceil(law.scale * math.log(aggregate.candidates)))
    if aggregate.at in (0, 1):
        return rows if aggregate.at == 0 else -rows
    return 0


def _dense(
    counts: Integers, aggregate: Quantile, past: int, law: Exponential, bits: BitSource
) -> Integers:
    """Return (cells,) chosen candidates, looking only at those near the quantile.

    The inner difference b L - a n + a (values at the candidate) never falls from one candidate to
    the next, so the near ones are found by halving.
    """
    a, b = aggregate.at.numerator, aggregate.at.denominator
    reach = math.ceil(FAR * law.scale) + 1
    words = bits.words(len(counts))
    chosen = np.empty(len(counts), dtype=np.int64)
    for cell, row in enumerate(counts):
        upto = np.cumsum(row)
        goal = a * int(upto[-1]) + past

        def difference(i: int, row: Integers = row, upto: Integers = upto, goal: int = goal) -> int:
            here = int(row[i])
            return b * (int(upto[i]) - here) - goal + a * here

        crossing = _first(difference, 0, len(row))
        beside = (difference(i) for i in (crossing - 1, crossing) if 0 <= i < len(row))
        far = min(map(abs, beside)) + reach
        first, last = _first(difference, -far, len(row)), _first(difference, far + 1, len(row))
        held, below = row[first:last], upto[first:last] - row[first:last]
        scores = -np.abs(b * below - goal + a * held)
        word, ones = int(words[cell]), np.ones(last - first, dtype=np.int64)
        found = law.decided(scores, ones, word, len(row) - len(held))
        if found is None:
            whole = -np.abs(b * (upto - row) - goal + a * row)
            uniform = LazyUniform(bits, word)
            chosen[cell] = law.settled(whole, np.ones(len(row), dtype=np.int64), uniform)
        else:
            chosen[cell] = first + found
    return chosen


def _first(difference: Callable[[int], int], least: int, size: int) -> int:
    """Return the first place whose difference is at least `least`; `size` if there is none."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if difference(middle) >= least:
            high = middle
        else:
            low = middle + 1
    return low


def quantile_runs(profile: Profile, aggregate: Quantile, past: int = 0) -> Runs:
    """Return all candidates of every cell with their scores: values that occur, and gaps between.

    The inner difference is lowered by `past` points.

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
    scores[at] = -np.abs((b - a) * below - a * (above + counts) - past)
    scores[at + 1] = -np.abs((b - a) * below - a * above - past)
    scores[last] = -np.abs((b - a) * total - past)
    previous = np.concatenate(([-1], values[:-1])) if pairs else values
    previous[starts[:-1][sizes > 0]] = -1
    lengths[at] = values - previous - 1
    lengths[at + 1] = 1
    ends = np.full(cells, -1, dtype=np.int64)
    ends[sizes > 0] = values[starts[1:][sizes > 0] - 1]
    lengths[last] = aggregate.candidates - 1 - ends
    return Runs(2 * starts + np.arange(cells + 1), scores, lengths).held()
