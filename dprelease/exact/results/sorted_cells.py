"""Store occupied cells and their sums on disk, in ascending order: for many, mostly empty cells.

Rows arrive in any order, one batch at a time. Each batch is sorted and summed separately, and
written as a run. Then the runs are summed, one range of cells after the other. The size of a range
depends neither on the number of cells nor on the rows, so memory does not depend on them either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from dprelease.exact.results.true_table import Integers
from dprelease.exact.results.vectors import MOST_ROWS, StoredVector

CELLS_PER_MARK = 1 << 14
"""Number of cells between two known positions in the files: as many as are noised at a time."""

MOST_RANGE_SUMS = 1 << 22
"""Number of sums in memory while runs are summed: 32 MB."""

CELLS_AT_ONCE = 1 << 20
"""Number of cells that are read at a time: the number of rows of a batch."""

Rows = tuple[Integers, Sequence[Integers | None]]
"""The cell of each row, and for each vector what the row adds to it; None if each row adds 1."""


class SortedCells:
    """Occupied cells in ascending order, each once, with its sum for each vector, in files."""

    def __init__(self, folder: Path, size: int, number: int) -> None:
        self.size, self.number = size, number
        self._cells = StoredVector(folder, "cells")
        self._sums = [StoredVector(folder, f"sums-{i}") for i in range(number)]
        self._before = np.zeros(math.ceil(size / CELLS_PER_MARK) + 1, np.int64)
        self._length = 0

    def append(self, cells: Integers, sums: Sequence[Integers]) -> None:
        """Write cells that all come after the cells written before.

        Raises OSError if the disk is full.
        """
        self._cells.append(cells)
        for stored, values in zip(self._sums, sums, strict=True):
            stored.append(values)
        np.add.at(self._before, cells // CELLS_PER_MARK + 1, 1)
        self._length += len(cells)

    def done(self) -> SortedCells:
        """Return the object itself, after all cells are written."""
        np.cumsum(self._before, out=self._before)
        return self

    def pieces(self) -> Iterator[Rows]:
        """Yield all cells and their sums, `CELLS_AT_ONCE` cells at a time."""
        for first in range(0, self._length, CELLS_AT_ONCE):
            some = slice(first, first + CELLS_AT_ONCE)
            yield self._cells[some], [stored[some] for stored in self._sums]

    def between(self, first: int, last: int, vector: int) -> Integers:
        """Return the sums of one vector in a range of cells; 0 for cells without rows."""
        found = np.zeros(max(last - first, 0), np.int64)
        grains = slice(first // CELLS_PER_MARK, math.ceil(last / CELLS_PER_MARK) + 1)
        for low, high in _ranges(self._before[grains]):
            cells = self._cells[low:high]
            start, stop = np.searchsorted(cells, (first, last)).tolist()
            values = self._sums[vector][low + start : low + stop]
            found[cells[start:stop] - first] = values
        return found

    def vectors(self, names: Sequence[str]) -> dict[str, SortedVector]:
        """Return the vectors by name."""
        return {name: SortedVector(self, i) for i, name in enumerate(names)}

    def __repr__(self) -> str:
        return f"<SortedCells of {self.size}>"


@dataclass(frozen=True, slots=True, repr=False)
class SortedVector:
    """One vector of `SortedCells`; `vector[cells]` returns a range, 0 for cells without rows."""

    _cells: SortedCells
    _number: int

    def __getitem__(self, cells: slice) -> Integers:
        first, last, _ = cells.indices(self._cells.size)
        return self._cells.between(first, last, self._number)

    def __repr__(self) -> str:
        return f"<SortedVector of {self._cells.size} cells>"


class TooManyRows(Exception):
    """There are so many rows that sums might not fit 64 bits."""


def sorted_cells(rows: Iterable[Rows], size: int, number: int, folder: Path) -> SortedCells:
    """Return the sums of rows by cell.

    - `rows`: batches of rows in any order. Rows with a cell from `size` on do not count. No row may
      add so much that the sums of `vectors.MOST_ROWS` rows exceed 64 bits.
    - `size`, `number`: the number of cells, and the number of vectors.

    Raises TooManyRows if there are more than `vectors.MOST_ROWS` rows. Raises OSError if the disk
    is full.
    """
    span = max(CELLS_PER_MARK, MOST_RANGE_SUMS // max(1, number) // CELLS_PER_MARK * CELLS_PER_MARK)
    edges = np.minimum(np.arange(math.ceil(size / span) + 1) * span, size)
    runs = _Runs(folder, number, edges)
    seen = 0
    for cells, added in rows:
        seen += len(cells)
        if seen > MOST_ROWS:
            raise TooManyRows
        runs.add(cells, added)
    return runs.add_up(SortedCells(folder, size, number))


@dataclass
class _Runs:
    """Runs: batches of rows, each sorted and summed.

    `edges`: the ends of the ranges of cells. `_starts`: for each run, the position in the files at
    which each range begins.
    """

    folder: Path
    number: int
    edges: Integers
    _starts: list[Integers] = field(default_factory=list)
    _length: int = 0

    def __post_init__(self) -> None:
        self._cells = StoredVector(self.folder, "run-cells")
        self._sums = [StoredVector(self.folder, f"run-sums-{i}") for i in range(self.number)]

    def add(self, cells: Integers, added: Sequence[Integers | None]) -> None:
        """Write a batch of rows as a run."""
        cells, sums = _sum_by_cell(cells, added)
        bounds = np.searchsorted(cells, self.edges)
        self._starts.append(self._length + bounds)
        inside = slice(int(bounds[-1]))
        self._cells.append(cells[inside])
        for stored, values in zip(self._sums, sums, strict=True):
            stored.append(values[inside])
        self._length += int(bounds[-1])

    def add_up(self, found: SortedCells) -> SortedCells:
        """Sum the runs, one range of cells after the other, and append the sums to `found`."""
        starts = np.array(self._starts, np.int64).reshape(-1, len(self.edges))
        for i, (low, high) in enumerate(pairwise(self.edges.tolist())):
            runs = np.flatnonzero(starts[:, i] < starts[:, i + 1])
            parts = [slice(*starts[run, i : i + 2].tolist()) for run in runs]
            if len(parts) == 1:  # unchanged: rows often arrive area by area
                found.append(self._cells[parts[0]], [stored[parts[0]] for stored in self._sums])
            elif parts:
                sums = np.zeros((self.number, high - low), np.int64)
                # A sum may be 0 although the cell has rows, so occupied cells are marked
                # separately.
                there = np.zeros(high - low, np.bool_)
                for part in parts:
                    at = self._cells[part] - low  # each cell occurs once in a run
                    there[at] = True
                    for total, stored in zip(sums, self._sums, strict=True):
                        total[at] += stored[part]
                held = np.flatnonzero(there)
                found.append(held + low, [total[held] for total in sums])
        return found.done()


def _sum_by_cell(
    cells: Integers, added: Sequence[Integers | None]
) -> tuple[Integers, list[Integers]]:
    """Return the cells of rows, in ascending order and each once, and the sums of each cell."""
    rising = len(cells) < 2 or bool((cells[1:] >= cells[:-1]).all())
    order: Integers | slice = slice(None)
    if not rising and any(values is not None for values in added):
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
    elif not rising:
        cells = np.sort(cells)
    # No cell has the number -1, so the first row begins a cell.
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    sums = [
        np.diff(starts, append=len(cells))
        if values is None
        else _segment_sums(values[order], starts)
        for values in added
    ]
    return cells[starts], sums


def _segment_sums(values: Integers, starts: Integers) -> Integers:
    """Return the sum of the values from each start up to the next."""
    found: Integers = np.add.reduceat(values, starts) if len(starts) else values
    return found


def _ranges(before: Integers) -> Iterator[tuple[int, int]]:
    """Yield ranges of positions in the files, which begin and end at positions of `before`.

    Each range has about `CELLS_AT_ONCE` stored cells.
    """
    at, last = 0, len(before) - 1
    while at < last:
        limit = int(before[at]) + CELLS_AT_ONCE
        to = max(int(np.searchsorted(before, limit, side="right")) - 1, at + 1)
        if before[to] > before[at]:
            yield int(before[at]), int(before[to])
        at = min(to, last)
