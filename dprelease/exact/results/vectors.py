"""True vectors filled batch by batch: 4 bytes a cell while rows allow it, on disk if many."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import numbers_of
from dprelease.exact.results.candidate_places import places_of
from dprelease.exact.results.stored import WIDTH, StoredVector
from dprelease.exact.results.true_table import Integers
from dprelease.query.measurement import Measurement
from dprelease.statements.compiled_statements import ProfileSql

BATCH = 2**15
"""Rows that come from the engine at a time: numbers that are made of them stay in a cache, and the
memory of one batch serves the next, where larger pieces of it are given back and had anew."""

LARGE = 2**20
"""Rows of a batch where each of them costs something of its own."""

NUMBERS = 2**22
"""Numbers that come at a time, 32 MB at most: of more columns fewer rows."""

MOST_ROWS = 2**32

HELD = 2**30
"""Bytes of one query's vectors that are in memory at a time; more go to files of the scratch
folder, a range of cells after the other."""

NARROW = 2**31
"""What 32 bits hold; a vector starts that narrow, and is widened before rows could exceed it."""

Vector = NDArray[np.int32 | np.int64] | StoredVector


def most_added(measurement: Measurement) -> int:
    """Return the most, in size, that one row adds to a vector."""
    return measurement.aggregate.most_added(measurement.sensitivity)


def sum_rows(
    link: duckdb.DuckDBPyConnection, sql: str, most: Mapping[str, int], size: int, scratch: Path
) -> dict[str, Vector] | None:
    """Return vectors added up row by row, for more cells than the engine groups well.

    `sql`: rows of a cell and what the row adds to each vector, at most `most` in size. 64 bits
    can't overflow below `MOST_ROWS` rows of 2^30 each; None where there are more rows. How wide a
    vector is depends on the number of rows, never on a value.
    """
    filling = _Filling(link, sql, size, scratch, adds=True)
    try:
        vectors = filling.narrow(list(most.values())) or filling.wide(len(most))
    except _TooManyRows:
        return None
    return dict(zip(most, vectors, strict=True))


def read_vectors(
    link: duckdb.DuckDBPyConnection, sql: str, names: Sequence[str], size: int, scratch: Path
) -> dict[str, Vector]:
    """Return vectors of which the engine gives whole cells, a row each."""
    vectors = _Filling(link, sql, size, scratch, adds=False).wide(len(names))
    return dict(zip(names, vectors, strict=True))


def count_places(
    link: duckdb.DuckDBPyConnection, asked: ProfileSql, size: int
) -> NDArray[np.int32 | np.int64]:
    """Return how often each place occurs; rows come in batches, so memory does not grow.

    Counts are 32 bits wide while that has room for all rows, whatever their places are.
    """
    places = size * asked.candidates
    counts: NDArray[Any] = np.zeros(places + 1, dtype=np.int32)
    seen = 0
    for batch in batches(link, asked.places):
        seen += len(batch)
        if seen >= NARROW:
            counts = counts.astype(np.int64, copy=False)
        np.add.at(counts, places_of(batch, asked, places), counts.dtype.type(1))
    return counts[:places]


def batches(
    link: duckdb.DuckDBPyConnection, sql: str, wide: int = 2, most: int = BATCH
) -> Generator[Any, None, None]:
    """Yield the rows of a SELECT of so many columns as Arrow record batches, as they are made.

    `most`: rows of a batch, of which there are fewer where they are wide. An engine that fails
    after its first batch raises OSError or ValueError, with its own words.
    """
    yield from link.sql(sql).to_arrow_reader(min(most, NUMBERS // wide))


class _TooManyRows(Exception):
    """There are more rows than 64 bits are sure to hold the sums of."""


@dataclass(frozen=True)
class _Filling:
    """Rows of a cell and one number for each vector, which they fill: added, or set."""

    link: duckdb.DuckDBPyConnection
    sql: str
    size: int
    scratch: Path
    adds: bool

    def narrow(self, bounds: list[int]) -> list[Vector] | None:
        """Return vectors in memory that start with 32 bits a cell; None if they don't fit there."""
        kinds = [np.dtype(np.int32 if bound < NARROW else np.int64) for bound in bounds]
        if self.size * sum(kind.itemsize for kind in kinds) > HELD:
            return None
        # One more cell, for rows that don't count.
        vectors: list[NDArray[Any]] = [np.zeros(self.size + 1, dtype=kind) for kind in kinds]
        for seen, cells, added in self._rows(len(bounds)):
            for i, values in enumerate(added):
                if vectors[i].dtype == np.int32 and seen * bounds[i] >= NARROW:
                    # Both stand in memory for a moment.
                    if sum(v.nbytes for v in vectors) + self.size * WIDTH > HELD:
                        return None
                    vectors[i] = vectors[i].astype(np.int64)
                np.add.at(vectors[i], cells, values.astype(vectors[i].dtype, copy=False))
        return [vector[: self.size] for vector in vectors]

    def wide(self, number: int) -> list[Vector]:
        """Return vectors of 64 bits a cell: in memory, or range after range to the scratch folder.

        Each range takes a pass over the rows. Which rows count is decided by their values alone, so
        that every pass sees the same ones.
        """
        parts = max(1, math.ceil(number * self.size * WIDTH / HELD))
        if parts == 1:
            return list(self._range(number, 0, self.size))
        stored = [StoredVector(self.scratch, f"vector-{i}") for i in range(number)]
        span = math.ceil(self.size / parts)
        for first in range(0, self.size, span):
            pieces = self._range(number, first, min(first + span, self.size))
            for vector, values in zip(stored, pieces, strict=True):
                vector.append(values)
            del pieces, values  # before the next range needs the room
        return list(stored)

    def _range(self, number: int, first: int, last: int) -> list[Integers]:
        vectors = [np.zeros(last - first + 1, dtype=np.int64) for _ in range(number)]
        for _, cells, numbers in self._rows(number):
            inside = slice(None) if last - first == self.size else _within(cells, first, last)
            for vector, values in zip(vectors, numbers, strict=True):
                if self.adds:
                    np.add.at(vector, cells[inside] - first, values[inside])
                else:
                    vector[cells[inside] - first] = values[inside]
        return [vector[: last - first] for vector in vectors]

    def _rows(self, number: int) -> Iterator[tuple[int, Integers, list[Integers]]]:
        """Yield how many rows there were, and the cells and numbers of the latest ones."""
        seen = 0
        for batch in batches(self.link, self.sql):
            seen += len(batch)
            if self.adds and seen > MOST_ROWS:
                raise _TooManyRows
            cells, *numbers = (numbers_of(batch.column(i)) for i in range(1 + number))
            yield seen, cells, numbers


def _within(cells: Integers, first: int, last: int) -> Integers:
    return np.flatnonzero((cells >= first) & (cells < last))
