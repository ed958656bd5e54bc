"""Read the true numbers of one table; the method depends on the number of cells.

Vectors with more cells than fit into memory are read in the order of cells, one range at a time:
the engine sorts its rows, on disk if necessary, and only the range that is being noised is in
memory. Every row of a source has been read before the first range is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import duckdb
import numpy as np

from dprelease.exact.arrow_numbers import to_numpy
from dprelease.exact.results.true_table import DenseProfile, Integers, Profile, VectorBlock
from dprelease.exact.results.vectors import (
    BYTES_PER_CELL,
    LARGE_BATCH_ROWS,
    MOST_HELD_BYTES,
    MOST_ROWS,
    count_pairs,
    fetch_batches,
    read_vectors,
    sum_rows,
)
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable, ProfileSql

MOST_COUNTS = 2**25
"""Maximum number of pairs of a cell and a candidate for which rows are counted in memory."""

MANY_CELLS = 2**16
"""Number of cells from which on rows are summed in memory instead of being grouped by the
engine."""

Result = TypeVar("Result")


class Attempt(Protocol):
    """A function that does work on a connection, and drops the engine's message if it fails."""

    def __call__(self, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """Return the result of the work; raise DP-DATA-006 if the engine fails."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads vectors and profiles; `scratch` is a folder for data that does not fit into memory."""

    attempt: Attempt
    scratch: Path

    def tables(self, compiled: CompiledQuery, size: int) -> list[KeyTable]:
        """Return the tables of public values that must exist before the query's statements run."""
        return compiled.tables(by_row=size >= MANY_CELLS)

    def vectors(
        self, compiled: CompiledQuery, added: dict[str, int], size: int
    ) -> Mapping[str, VectorBlock]:
        """Return all vectors of a query; `added`: the most that one row adds to each vector."""
        if not compiled.columns:
            return {}
        most = {name: added[name] for name in compiled.columns}
        if size >= MANY_CELLS:
            return self._vectors_of_many_cells(compiled, most, size)
        columns = self._fetch_vectors(compiled.sql)
        cells = columns["cell"]
        vectors: dict[str, VectorBlock] = {}
        for i, name in enumerate(compiled.columns):
            # The statement may return one more cell, of rows that count nowhere.
            vector = np.zeros(size + 1, dtype=np.int64)
            vector[cells] = columns[f"m{i}"]
            vectors[name] = vector[:size]
        return vectors

    def _vectors_of_many_cells(
        self, compiled: CompiledQuery, most: dict[str, int], size: int
    ) -> Mapping[str, VectorBlock]:
        """Return all vectors of a table with too many cells to fetch them at once."""
        if compiled.rows and max(most.values()) < 2**62 // MOST_ROWS:
            sums = self.attempt(
                lambda link: sum_rows(link, compiled.rows, most, size, self.scratch),
            )
            if sums is not None:
                return sums
        if size * len(compiled.columns) * BYTES_PER_CELL > MOST_HELD_BYTES:
            # Vectors that exceed the memory are read while they are noised, in the order of their
            # cells.
            return ascending_vectors(self.attempt, compiled.sql, compiled.columns, size)
        return self.attempt(
            lambda link: read_vectors(link, compiled.sql, compiled.columns, size, self.scratch),
        )

    def profiles(self, compiled: CompiledQuery, size: int) -> dict[str, Profile | DenseProfile]:
        """Return, for each measurement, how often each candidate occurs in each cell."""
        statements = dict.fromkeys(compiled.profiles.values())
        by_statement = {statement: self._read_profile(statement, size) for statement in statements}
        return {name: by_statement[statement] for name, statement in compiled.profiles.items()}

    def _read_profile(self, profile_sql: ProfileSql, size: int) -> Profile | DenseProfile:
        """Return the count of each candidate in each cell, for the selection mechanisms."""
        pair_count = size * profile_sql.candidates
        if pair_count > MOST_COUNTS:
            columns = self._fetch_vectors(profile_sql.grouped)
            return Profile.of(columns["cell"], columns["v"], columns["n"], size)
        counts = self.attempt(lambda link: count_pairs(link, profile_sql, size))
        # `own`: the counts are overwritten, because a copy would double the memory.
        return DenseProfile.of(counts.reshape(size, profile_sql.candidates), own=True)

    def _fetch_vectors(self, sql: str) -> dict[str, Integers]:
        """Return the columns of a statement's result as integers, by name."""
        # Rows are fetched inside the attempt: the engine is lazy, and may fail only now.
        columns = self.attempt(lambda link: link.execute(sql).fetchnumpy())
        return {name: np.asarray(column, dtype=np.int64) for name, column in columns.items()}


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
