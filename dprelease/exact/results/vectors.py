"""Fill true vectors batch by batch: 4 bytes per cell while rows allow it, on disk if many."""

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
"""Rows from the engine at a time: numbers computed from them stay in a cache, and the memory of one
batch is reused for the next, while larger blocks would be returned to the system and allocated
again."""

LARGE = 2**20
"""Rows of a batch where each batch has a cost of its own."""

NUMBERS = 2**22
"""Numbers that arrive at a time, 32 MB at most: with more columns, fewer rows."""

MOST_ROWS = 2**32

HELD = 2**30
"""Bytes of one query's vectors that are in memory at a time; larger ones go to files of the scratch
folder, one range of cells after the other."""

NARROW = 2**31
"""The range of 32 bits; a vector starts that narrow, and is widened before rows could exceed it."""

Vector = NDArray[np.int32 | np.int64] | StoredVector


def most_added(measurement: Measurement) -> int:
    """Return the largest absolute value that one row adds to a vector."""
    return measurement.aggregate.most_added(measurement.sensitivity)


def sum_rows(
    link: duckdb.DuckDBPyConnection, sql: str, most: Mapping[str, int], size: int, scratch: Path
) -> dict[str, Vector] | None:
    """Return vectors summed row by row, for more cells than the engine groups well.

    `sql`: rows of a cell and the row's contribution to each vector, at most `most` in size. 64 bits
    can't overflow below `MOST_ROWS` rows of 2^30 each; None if there are more rows. The width of a
    vector depends on the number of rows, never on a value.
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
    """Return vectors for which the engine returns complete cells, one row each."""
    vectors = _Filling(link, sql, size, scratch, adds=False).wide(len(names))
    return dict(zip(names, vectors, strict=True))


def count_places(
    link: duckdb.DuckDBPyConnection, asked: ProfileSql, size: int
) -> NDArray[np.int32 | np.int64]:
    """Return how often each index occurs; rows arrive in batches, so memory does not grow.

    Counts are 32 bits wide while that holds the number of all rows, whatever their indexes are.
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

    `most`: maximum rows of a batch; wide rows come in smaller ones. An engine that fails after its
    first batch raises OSError or ValueError, with its own message.
    """
    yield from link.sql(sql).to_arrow_reader(min(most, NUMBERS // wide))


class _TooManyRows(Exception):
    """There are more rows than those whose sums certainly fit 64 bits."""


@dataclass(frozen=True)
class _Filling:
    """Rows of a cell and one number for each vector, which they fill: added, or set."""

    link: duckdb.DuckDBPyConnection
    sql: str
    size: int
    scratch: Path
    adds: bool

    def narrow(self, bounds: list[int]) -> list[Vector] | None:
        """Return vectors in memory that start with 32 bits per cell; None if they don't fit."""
        kinds = [np.dtype(np.int32 if bound < NARROW else np.int64) for bound in bounds]
        if self.size * sum(kind.itemsize for kind in kinds) > HELD:
            return None
        # One more cell, for rows that don't count.
        vectors: list[NDArray[Any]] = [np.zeros(self.size + 1, dtype=kind) for kind in kinds]
        for seen, cells, added in self._rows(len(bounds)):
            for i, values in enumerate(added):
                if vectors[i].dtype == np.int32 and seen * bounds[i] >= NARROW:
                    # Both are in memory for a moment.
                    if sum(v.nbytes for v in vectors) + self.size * WIDTH > HELD:
                        return None
                    vectors[i] = vectors[i].astype(np.int64)
                np.add.at(vectors[i], cells, values.astype(vectors[i].dtype, copy=False))
        return [vector[: self.size] for vector in vectors]

    def wide(self, number: int) -> list[Vector]:
        """Return vectors of 64 bits per cell: in memory, or range by range to the scratch folder.

        Each range takes a pass over the rows. The values alone decide which rows count, so every
        pass sees the same ones.
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
            del pieces, values  # before the next range needs the memory
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
        """Yield the number of rows so far, and the cells and numbers of the latest ones."""
        seen = 0
        for batch in batches(self.link, self.sql):
            seen += len(batch)
            if self.adds and seen > MOST_ROWS:
                raise _TooManyRows
            cells, *numbers = (numbers_of(batch.column(i)) for i in range(1 + number))
            yield seen, cells, numbers


def _within(cells: Integers, first: int, last: int) -> Integers:
    return np.flatnonzero((cells >= first) & (cells < last))
