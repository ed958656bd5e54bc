"""Tables as offices coarsen them: exact, rounded, suppressed; and what each then tells."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.reconstruction.told_cells import ToldCells, convex, within
from dprelease.rehearsal.draws import Draws

BASE = 5
"""Counts are rounded to multiples of it."""

FEWEST = 10
"""Counts from 1 up to below it are withheld."""


def round_counts(true: Integers) -> ToldCells:
    """Return counts rounded to the nearest multiple of 5; no count lies half-way."""
    shown = (BASE * np.rint(true / BASE)).astype(np.float64)
    return within(shown, shown - BASE // 2, shown + BASE // 2, shown)


def randomly_rounded(true: Integers, draws: Draws) -> ToldCells:
    """Return counts rounded to one of the multiples of 5 beside them, the nearer one more often.

    Up with the probability rest / 5, so that the mean of what is shown is the count; multiples stay
    as they are. A count that is d away from what is shown was rounded to it with the probability
    1 - d / 5, whose logarithm falls faster and faster: what the attacker reckons with.
    """
    down, rest = np.divmod(true, BASE)
    up = draws.uniform(len(true)) * BASE < rest
    shown = (BASE * (down + up)).astype(np.float64)
    costs = [-math.log(1.0 - d / BASE) for d in range(BASE)]
    slopes = [after - before for before, after in pairwise(costs)]
    falls = convex([1.0] * (BASE - 1), slopes)
    lower = np.maximum(shown - (BASE - 1), 0.0)
    return ToldCells(shown, lower, shown + BASE - 1, shown, falls, falls)


def suppress_small_counts(true: Integers) -> ToldCells:
    """Return counts of which those from 1 to 9 are withheld; which they are is seen."""
    return _withheld(true, (true > 0) & (true < FEWEST), FEWEST - 1.0)


def doubly_suppressed(true: Integers, keys: KeySpace) -> ToldCells:
    """Return counts of which others are withheld besides, so that no single one can be subtracted.

    In every line of a table, along each of its keys, in which exactly one count is withheld, the
    smallest other one that is not 0 is withheld as well, until no such line is left that has one.
    Of these the attacker knows that they are at least 1, and not which of all were small.
    """
    hidden = (true > 0) & (true < FEWEST)
    shape = tuple(key.size for key in keys.keys)
    table, cover = true.reshape(shape), hidden.reshape(shape).copy()
    while sum(_cover_lines(table, cover, axis) for axis in range(len(shape))):  # along every key
        pass
    return _withheld(true, cover.reshape(-1), math.inf)


def _cover_lines(table: Integers, cover: Flags, axis: int) -> bool:
    """Withhold a second count in lines with exactly one; return whether there was such a line."""
    counts, hidden = np.moveaxis(table, axis, -1), np.moveaxis(cover, axis, -1)
    free = np.where(hidden | (counts == 0), np.iinfo(np.int64).max, counts)
    least = free.argmin(axis=-1)
    there = np.take_along_axis(free, least[..., None], -1)[..., 0] < np.iinfo(np.int64).max
    lines = np.argwhere((hidden.sum(axis=-1) == 1) & there)
    for line in map(tuple, lines):
        hidden[(*line, int(least[line]))] = True
    return len(lines) > 0


def _withheld(true: Integers, hidden: Flags, upper: float) -> ToldCells:
    shown: Floats = true.astype(np.float64)
    guess = np.where(hidden, FEWEST / 2, shown)
    return ToldCells(
        np.where(hidden, np.nan, shown),
        np.where(hidden, 1.0, shown),
        np.where(hidden, upper, shown),
        guess,
    )
