"""Read true vectors from the engine in the order of cells, one range of cells at a time.

This is for tables with more cells than fit into memory. The engine sorts its rows, on disk if
necessary, and only the range that is being noised is in memory. Every row of a source has been read
before the first range is returned.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.exact.arrow_numbers import to_numpy
from dprelease.exact.results.true_table import Integers
from dprelease.exact.results.vectors import LARGE_BATCH_ROWS, fetch_batches

if TYPE_CHECKING:
    import duckdb

    from dprelease.exact.table_reader import Attempt

Rows = tuple[Integers, list[Integers]]
"""Cells in ascending order, and for each vector its values in these cells."""


def ascending_vectors(
    attempt: Attempt, sql: str, names: Sequence[str], size: int
) -> dict[str, AscendingVector]:
    """Return vectors, by name, of which ranges of cells can be read, for the result of a SELECT.

    `sql`: the SELECT, which returns one row for each cell: the cell, and one number for each of
    `names`. `attempt`: a function that does work on the engine's connection. The connection must
    run no other statement while ranges are read. Ranges should be requested in ascending order,
    because the statement runs again if a range comes before the range requested last.
    """
    ordered = f"SELECT * FROM ({sql}) WHERE cell < {size} ORDER BY cell"  # all its rows are read
    ranges = _Ranges(attempt, ordered, len(names), size)
    ranges.begin()
    return {name: AscendingVector(ranges, i) for i, name in enumerate(names)}


class AscendingVector:
    """A vector that is read from the engine; `vector[cells]` returns a range of its cells."""

    def __init__(self, ranges: _Ranges, number: int) -> None:
        self._ranges, self._number = ranges, number

    def __getitem__(self, cells: slice) -> Integers:
        return self._ranges.vectors_in(cells)[self._number]

    def __repr__(self) -> str:
        return f"<AscendingVector of {self._ranges.size} cells>"


@dataclass
class _Ranges:
    """The current range of cells of all vectors, and the rows that follow."""

    attempt: Attempt
    sql: str
    number: int
    size: int
    _coming: Generator[Any, None, None] | None = None
    _left: Rows | None = None
    """Rows that have been read, but whose cells come after the current range."""
    _held: tuple[int, int] = (0, 0)
    _passed: int = 0
    """The cell up to which rows have been used."""
    _vectors: list[Integers] | None = None

    def begin(self) -> None:
        """Run the statement and fetch its first rows; then the engine has read all sources."""

        def start_batches(link: duckdb.DuckDBPyConnection) -> Generator[Any, None, None]:
            """Return the batches of the rows: a cell, and one number for each vector."""
            return fetch_batches(link, self.sql, 1 + self.number, LARGE_BATCH_ROWS)

        self._coming = self.attempt(start_batches)
        self._left, self._passed, self._vectors = self._next_rows(), 0, None

    def vectors_in(self, cells: slice) -> list[Integers]:
        """Return all vectors for a range of cells."""
        first, last, _ = cells.indices(self.size)
        last = max(first, last)
        # The caller asks for one vector after the other, but a row of the statement has all of
        # them, and can't be read again.
        if self._vectors is None or self._held != (first, last):
            if first < self._passed:
                self.begin()
            self._vectors = self._vectors_of_range(first, last)
            self._held, self._passed = (first, last), max(self._passed, last)
        return self._vectors

    def _vectors_of_range(self, first: int, last: int) -> list[Integers]:
        """Return the vectors of the cells from `first` up to, but without, `last`."""
        vectors = [np.zeros(max(last - first, 0), np.int64) for _ in range(self.number)]
        while self._left is not None:
            cells, numbers = self._left
            start, stop = np.searchsorted(cells, (first, last)).tolist()
            for vector, values in zip(vectors, numbers, strict=True):
                vector[cells[start:stop] - first] = values[start:stop]
            if stop < len(cells):
                # Rows of later cells belong to the next range, because the statement can't go back.
                self._left = cells[stop:], [values[stop:] for values in numbers]
                break
            self._left = self._next_rows()
        return vectors

    def _next_rows(self) -> Rows | None:
        """Return the next rows of the statement; None if there are no more rows."""
        coming = self._coming
        if coming is None:
            return None
        batch = self.attempt(lambda _link: next(coming, None))
        if batch is None:
            self._coming = None
            return None
        cells, *numbers = (to_numpy(column) for column in batch.columns)
        return cells, numbers
