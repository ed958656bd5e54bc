"""Targeted swapping: rare records swap areas with other records before all are counted."""

from __future__ import annotations

import math

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.reconstruction.record_combinations import Combinations
from dprelease.rehearsal.draws import Draws


def swap_areas(
    records: Integers, combinations: Combinations, area: int, rate: float, draws: Draws
) -> Integers:
    """Return the number of records of each combination after a share of them changed areas.

    Records with a unique combination are swapped first, then those of combinations with two
    records, and so on, in random order among equals. Each record swaps its area, and nothing else,
    with a random partner among the records that have not moved yet. If possible, the partner has
    the same value of the first attribute other than the area, so that the counts of this attribute
    by area stay unchanged. This is repeated until the share `rate` of all records has moved.
    Records of the same combination are interchangeable.
    """
    of_record = np.repeat(np.arange(len(records)), records)
    values = combinations.values[of_record]
    free = Free(_matching_values(values, area), values[:, area])
    left = int(rate * len(of_record)) // 2
    for one in np.lexsort((draws.uniform(len(of_record)), records[of_record])):
        if left == 0:
            break
        other = free.partner(one, draws)
        if other is None:
            continue
        values[[one, other], area] = values[[other, one], area]
        free.take(one)
        free.take(other)
        left -= 1
    return _count_combinations(values, combinations)


def _matching_values(values: Integers, area: int) -> Integers:
    """Return the values that partners share: those of the first attribute other than the area."""
    others = [i for i in range(values.shape[1]) if i != area]
    found: Integers = values[:, others[0]] if others else np.zeros(len(values), dtype=np.int64)
    return found


class Free:
    """Records that have not moved, grouped by shared value and area, for drawing partners."""

    def __init__(self, attribute_values: Integers, areas: Integers) -> None:
        shape = (int(attribute_values.max(initial=0)) + 1, int(areas.max(initial=0)) + 1)
        self._group = np.ravel_multi_index((attribute_values, areas), shape)
        self._left = np.bincount(self._group, minlength=math.prod(shape)).reshape(shape)
        self._left_in = self._left.sum(axis=0)
        self._starts = np.cumsum(self._left) - self._left.ravel()
        self._members = np.argsort(self._group, kind="stable")
        self._places = np.argsort(self._members)
        """The number of free records of each group, which are the first ones of the group."""

    def take(self, one: int) -> None:
        """Remove a record from the free records."""
        group = self._group[one]
        self._left.ravel()[group] -= 1
        self._left_in[group % len(self._left_in)] -= 1
        hole, last = self._places[one], self._starts[group] + self._left.ravel()[group]
        moved = self._members[last]
        self._members[[hole, last]] = moved, one
        self._places[[one, moved]] = last, hole

    def partner(self, one: int, draws: Draws) -> int | None:
        """Return a free record of another area; None if there is none, or `one` is not free."""
        group = self._group[one]
        if self._places[one] >= self._starts[group] + self._left.ravel()[group]:
            return None
        attribute_value, area = divmod(int(group), self._left.shape[1])
        alike = self._left[attribute_value].copy()
        alike[area] = 0
        if alike.any():
            town, place = _draw_member(alike, draws)
            return self._member(attribute_value, town, place)
        elsewhere = self._left_in.copy()
        elsewhere[area] = 0
        if not elsewhere.any():
            return None
        town, place = _draw_member(elsewhere, draws)
        column = np.cumsum(self._left[:, town])
        attribute_value = int(np.searchsorted(column, place, side="right"))
        return self._member(
            attribute_value,
            town,
            place - int(column[attribute_value] - self._left[attribute_value, town]),
        )

    def _member(self, attribute_value: int, area: int, place: int) -> int:
        group = attribute_value * self._left.shape[1] + area
        return int(self._members[self._starts[group] + place])


def _draw_member(counts: Integers, draws: Draws) -> tuple[int, int]:
    """Return a uniformly drawn record, as its group and its index in the group."""
    until = np.cumsum(counts)
    drawn = draws.whole(1, 0, int(until[-1]) - 1)[0]
    group = int(np.searchsorted(until, drawn, side="right"))
    return group, int(drawn - until[group] + counts[group])


def _count_combinations(moved: Integers, combinations: Combinations) -> Integers:
    """Return the number of records of each combination."""
    sizes = combinations.values.max(axis=0, initial=0) + 1
    index = np.ravel_multi_index(tuple(moved.T), tuple(sizes))
    places = np.ravel_multi_index(tuple(combinations.values.T), tuple(sizes))
    counts = np.bincount(index, minlength=int(np.prod(sizes)))
    found: Integers = counts[places].astype(np.int64)
    return found
