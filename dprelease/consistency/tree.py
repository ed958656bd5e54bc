"""Trees of areas, level by level, which may have leaves at several levels and single children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 1 << 20
"""Number of areas of one level in a batch."""

Ranges = list[tuple[int, int]]  # of each level from the first on, the nodes start <= v < stop


class Tree:
    """Areas by level: level 0 has the roots, and every other area has a parent in the level above.

    - `roots`: the number of areas of level 0; usually one, the total.
    - `parents`: for every level from 1 on, the index of the parent of each area in the level above.
      Indices ascend, so that the children of an area are consecutive, in the order of their
      parents.

    Raises ValueError if a level is empty, names a parent that does not exist, or is not in its
    parents' order.
    """

    def __init__(self, roots: int, parents: Sequence[NDArray[np.int64]] = ()) -> None:
        self.counts = [roots, *(len(level) for level in parents)]
        self.parents = [np.asarray(level, np.int64) for level in parents]
        for above, level in zip(self.counts, self.parents, strict=False):
            if not len(level) or level[0] < 0 or level[-1] >= above or (np.diff(level) < 0).any():
                raise ValueError("the parents of a level are indices of the level above, rising")
        if roots < 1:
            raise ValueError("a tree has at least one root")

    @property
    def levels(self) -> int:
        """Return the number of levels."""
        return len(self.counts)

    @cached_property
    def starts(self) -> list[NDArray[np.int64]]:
        """Return for each level but the last the index of the first child of each area."""
        return [
            np.searchsorted(level, np.arange(above + 1), side="left")
            for above, level in zip(self.counts, self.parents, strict=False)
        ]

    def fan(self, level: int) -> NDArray[np.int64]:
        """Return the number of children of each area of a level; 0 for a leaf."""
        if level == self.levels - 1:
            return np.zeros(self.counts[level], np.int64)
        return np.diff(self.starts[level])

    def most_children(self, level: int) -> int:
        """Return the largest number of children of an area of a level; 1 above the roots."""
        return 1 if level < 0 else max(1, int(self.fan(level).max()))

    def below(self, level: int, start: int, stop: int) -> Ranges:
        """Return the areas from start to stop of a level and all areas below them, by level."""
        ranges = [(start, stop)]
        for starts in self.starts[level:]:
            start, stop = int(starts[start]), int(starts[stop])
            ranges.append((start, stop))
        return ranges

    def part(self, level: int, ranges: Ranges) -> Tree:
        """Return the areas of a result of `below` as a separate tree.

        The tree has all levels from `level` on, and lower levels may be empty.
        """
        # Not by the constructor, which refuses empty levels and checks indices that were checked
        # before.
        found = object.__new__(Tree)
        found.counts = [stop - start for start, stop in ranges]
        found.parents = [
            self.parents[at][slice(*here)] - above[0]
            for at, (above, here) in enumerate(pairwise(ranges), level)
        ]
        return found

    def some(self, level: int, at_once: int = AT_ONCE) -> Iterator[tuple[int, int]]:
        """Yield the areas of a level below the roots in batches of complete families."""
        starts = self.starts[level - 1]
        first = 0
        while first < len(starts) - 1:
            last = int(np.searchsorted(starts, starts[first] + at_once, side="right")) - 1
            last = max(last, first + 1)
            if starts[first] < starts[last]:
                yield int(starts[first]), int(starts[last])
            first = last

    def subtrees(self, cells_at_most: int, cells: int) -> tuple[int, list[int]]:
        """Return a level, and cuts between its areas, such that pieces fit in memory.

        - `cells_at_most`: the largest number of cells of one piece on its widest level.
        - `cells`: the number of cells of one area.

        Returns the level of the highest areas of pieces: the level with which the widest piece and
        the top of the tree need the least memory together. And cuts c_0 = 0 < c_1 < ... < c_m: a
        piece has the areas from c_i to c_(i+1) and all areas below them.
        """
        limit = max(1, cells_at_most // cells)
        levels = range(max(1, self.levels - 1))
        wide = [max(limit, int(self._widest(level).max())) for level in levels]
        level = min(levels, key=lambda at: (self.counts[at] + wide[at], at))
        widest = self._widest(level)
        ends = np.cumsum(widest)
        cuts, done = [0], 0
        while cuts[-1] < len(ends):
            after = int(np.searchsorted(ends, done + limit, side="right"))
            cuts.append(max(after, cuts[-1] + 1))
            done = int(ends[cuts[-1] - 1])
        return level, cuts

    def _widest(self, level: int) -> NDArray[np.int64]:
        """Return for each area of a level the largest number of areas below it on any level."""
        edges = np.arange(self.counts[level] + 1)
        widest = np.ones(self.counts[level], np.int64)
        for starts in self.starts[level:]:
            edges = starts[edges]
            widest = np.maximum(widest, np.diff(edges))
        return widest
