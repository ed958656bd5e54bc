"""Targeted swapping: records that stand out change areas with others before they are counted."""

from __future__ import annotations

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.reconstruction.record_combinations import Combinations
from dprelease.rehearsal.draws import Draws


def swapped(
    records: Integers, combinations: Combinations, area: int, rate: float, draws: Draws
) -> Integers:
    """Return how many records have each combination after a part of them has changed areas.

    Records that are alone with their combination come first, then those of two, and so on; among
    equals chance decides. Each changes the area (and nothing else) with a record of another one
    that is drawn among those that have not moved yet: if there is one, with the same value of the
    first other attribute, whose counts by area then stay as they are. So both are moved, until
    `rate` of all records are. Records of the same combination are one as good as the other.
    """
    of_record = np.repeat(np.arange(len(records)), records)
    values = combinations.values[of_record]
    areas, kept = values[:, area].copy(), _kept(values, area)
    order = np.lexsort((draws.uniform(len(of_record)), records[of_record]))
    free = np.ones(len(of_record), dtype=np.bool_)
    left = int(rate * len(of_record)) // 2
    for one in order:
        if left == 0:
            break
        if not free[one]:
            continue
        other = _partner(int(one), areas, kept, free, draws)
        if other is None:
            continue
        areas[one], areas[other] = areas[other], areas[one]
        free[[one, other]] = False
        left -= 1
    moved = values.copy()
    moved[:, area] = areas
    return _counted(moved, combinations)


def _kept(values: Integers, area: int) -> Integers:
    """Return the value that partners have in common: of the first attribute that is no area."""
    others = [i for i in range(values.shape[1]) if i != area]
    return values[:, others[0]] if others else np.zeros(len(values), dtype=np.int64)


def _partner(
    one: int, areas: Integers, kept: Integers, free: np.ndarray, draws: Draws
) -> int | None:
    """Return a record of another area that has not moved; None if there is none."""
    elsewhere = free & (areas != areas[one])
    alike = np.flatnonzero(elsewhere & (kept == kept[one]))
    found = alike if len(alike) else np.flatnonzero(elsewhere)
    if not len(found):
        return None
    return int(found[draws.whole(1, 0, len(found) - 1)[0]])


def _counted(moved: Integers, combinations: Combinations) -> Integers:
    """Return how many of some records each combination has."""
    sizes = combinations.values.max(axis=0, initial=0) + 1
    index = np.ravel_multi_index(tuple(moved.T), tuple(sizes))
    places = np.ravel_multi_index(tuple(combinations.values.T), tuple(sizes))
    counts = np.bincount(index, minlength=int(np.prod(sizes)))
    found: Integers = counts[places].astype(np.int64)
    return found
