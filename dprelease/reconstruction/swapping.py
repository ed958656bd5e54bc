"""Swap the areas of rare records with the areas of others, before all records are counted."""

from __future__ import annotations

import math

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.reconstruction.record_combinations import Combinations
from dprelease.rehearsal.column_values import Draws


def swap_areas(
    records: Integers, combinations: Combinations, area: int, rate: float, draws: Draws
) -> Integers:
    """Return the number of records of each combination after a share of the records swapped areas.

    Records with a unique combination are swapped first, then records of combinations with two
    records, and so on, in random order among equally rare records. Each record swaps its area, and
    no other attribute, with a random partner among the records that have not moved yet. If
    possible, the partner has the same value of the first attribute other than the area, so that the
    counts of this attribute by area stay unchanged. The swaps end when the share `rate` of all
    records has moved.
    """
    of_record = np.repeat(np.arange(len(records)), records)
    values = combinations.values[of_record]
    unmoved = UnmovedRecords(_matching_values(values, area), values[:, area])
    left = int(rate * len(of_record)) // 2
    # The last key sorts first: rarity, and random numbers among equally rare records.
    for one in np.lexsort((draws.uniform(len(of_record)), records[of_record])):
        if left == 0:
            break
        other = unmoved.draw_partner(one, draws)
        if other is None:
            continue
        values[[one, other], area] = values[[other, one], area]
        unmoved.remove(one)
        unmoved.remove(other)
        left -= 1
    return _count_combinations(values, combinations)


def _matching_values(values: Integers, area: int) -> Integers:
    """Return the values that partners share, of the first attribute other than the area."""
    others = [i for i in range(values.shape[1]) if i != area]
    found: Integers = values[:, others[0]] if others else np.zeros(len(values), dtype=np.int64)
    return found


class UnmovedRecords:
    """The records that have not moved, in groups of equal shared value and equal area."""

    def __init__(self, attribute_values: Integers, areas: Integers) -> None:
        shape = (int(attribute_values.max(initial=0)) + 1, int(areas.max(initial=0)) + 1)
        self._group = np.ravel_multi_index((attribute_values, areas), shape)
        self._left_by_group = np.bincount(self._group, minlength=math.prod(shape)).reshape(shape)
        """The number of unmoved records of each group, which are the first members of the group."""
        self._left_by_area = self._left_by_group.sum(axis=0)
        self._starts = np.cumsum(self._left_by_group) - self._left_by_group.ravel()
        self._members = np.argsort(self._group, kind="stable")
        self._index_of_member = np.argsort(self._members)

    def remove(self, one: int) -> None:
        """Remove a record from the unmoved records."""
        group = self._group[one]
        self._left_by_group.ravel()[group] -= 1
        self._left_by_area[group % len(self._left_by_area)] -= 1
        hole = self._index_of_member[one]
        # The record changes places with the last unmoved one of its group, so that the first
        # members stay the unmoved ones.
        last = self._starts[group] + self._left_by_group.ravel()[group]
        moved = self._members[last]
        self._members[[hole, last]] = moved, one
        self._index_of_member[[one, moved]] = last, hole

    def draw_partner(self, one: int, draws: Draws) -> int | None:
        """Return a random unmoved record of another area.

        The result is None if there is no such record, or if the record `one` has moved itself.
        """
        group = self._group[one]
        if self._index_of_member[one] >= self._starts[group] + self._left_by_group.ravel()[group]:
            return None
        attribute_value, area = divmod(int(group), self._left_by_group.shape[1])
        candidates = self._left_by_group[attribute_value].copy()
        candidates[area] = 0
        if candidates.any():
            other_area, index = _draw_member(candidates, draws)
            return self._member(attribute_value, other_area, index)
        candidates_elsewhere = self._left_by_area.copy()
        candidates_elsewhere[area] = 0
        if not candidates_elsewhere.any():
            return None
        other_area, index = _draw_member(candidates_elsewhere, draws)
        column = np.cumsum(self._left_by_group[:, other_area])
        attribute_value = int(np.searchsorted(column, index, side="right"))
        return self._member(
            attribute_value,
            other_area,
            index - int(column[attribute_value] - self._left_by_group[attribute_value, other_area]),
        )

    def _member(self, attribute_value: int, area: int, index: int) -> int:
        """Return the number of the record with an index in the group of a value and an area."""
        group = attribute_value * self._left_by_group.shape[1] + area
        return int(self._members[self._starts[group] + index])


def _draw_member(counts: Integers, draws: Draws) -> tuple[int, int]:
    """Return a uniformly drawn record, as its group and its index in the group."""
    until = np.cumsum(counts)
    drawn = draws.integers(1, 0, int(until[-1]) - 1)[0]
    group = int(np.searchsorted(until, drawn, side="right"))
    return group, int(drawn - until[group] + counts[group])


def _count_combinations(moved: Integers, combinations: Combinations) -> Integers:
    """Return the number of records of each combination."""
    sizes = combinations.values.max(axis=0, initial=0) + 1
    index = np.ravel_multi_index(tuple(moved.T), tuple(sizes))
    combination_numbers = np.ravel_multi_index(tuple(combinations.values.T), tuple(sizes))
    counts = np.bincount(index, minlength=int(np.prod(sizes)))
    found: Integers = counts[combination_numbers].astype(np.int64)
    return found
