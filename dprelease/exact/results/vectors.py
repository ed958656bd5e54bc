"""Fill true vectors from batches of rows, in memory, or on disk if there are many cells."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import to_numpy, to_numpy_ignoring_nulls, validity_mask
from dprelease.exact.results.true_table import Integers
from dprelease.query.measurement import Measurement
from dprelease.statements.compiled_statements import ProfileSql
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats

BYTES_PER_CELL = 8


class StoredVector:
    """A vector of true integers on disk; `vector[cells]` reads a range of its cells.

    The file is unlinked as soon as it is open, so nothing of it remains, even if the process is
    killed. Reads use the system's cache, and not the memory of the process.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name
        self._file = path.open("x+b")
        path.unlink()
        weakref.finalize(self, self._file.close)
        self._length = 0

    def append(self, values: Integers) -> None:
        """Write the next cells; raises OSError if the disk is full."""
        self._file.write(values.data)
        self._file.flush()
        self._length += len(values)

    def __getitem__(self, cells: slice) -> Integers:
        first, last, _ = cells.indices(self._length)
        integers: Integers = np.empty(max(last - first, 0), dtype=np.int64)
        left, place = integers.data.cast("B"), first * BYTES_PER_CELL
        while len(left):  # the system reads at most 2 GB at once
            read = os.preadv(self._file.fileno(), [left], place)
            if read == 0:
                raise OSError("a scratch file is shorter than it was")
            left, place = left[read:], place + read
        return integers

    def __repr__(self) -> str:
        return f"<StoredVector of {self._length} cells>"


BATCH_ROWS = 2**15
"""Rows from the engine at a time. Numbers that are computed from so few rows stay in a cache, and
the memory of one batch is reused for the next batch; larger blocks of memory would be returned to
the system and allocated again."""

LARGE_BATCH_ROWS = 2**20
"""Rows of a batch if each batch causes additional work, whatever its size."""

MOST_BATCH_NUMBERS = 2**22
"""Maximum numbers of a batch, 32 MB: a batch with more columns has fewer rows."""

MOST_ROWS = 2**32

MOST_HELD_BYTES = 2**30
"""Maximum bytes of one query's vectors in memory; larger vectors are written to files of the
scratch folder, one range of cells after the other."""

RANGE_OF_32_BITS = 2**31
"""The range of 32 bits. Vectors start with 32 bits, and are widened before sums could exceed it."""

Vector = NDArray[np.int32 | np.int64] | StoredVector


def most_added(measurement: Measurement) -> int:
    """Return the largest absolute value that one row adds to a vector."""
    return measurement.aggregate.most_added(measurement.sensitivity)


def sum_rows(
    link: duckdb.DuckDBPyConnection, sql: str, most: Mapping[str, int], size: int, scratch: Path
) -> dict[str, Vector] | None:
    """Return vectors summed row by row, for more cells than the engine groups well.

    `sql`: a SELECT of each row's cell, and of its contribution to each vector, whose absolute value
    is at most `most`. The result is None if there are more than `MOST_ROWS` rows, because sums
    might not fit 64 bits. The width of a vector depends on the number of rows, never on a value.
    """
    filling = _VectorFiller(link, sql, size, scratch, adds=True)
    try:
        vectors = filling.narrow(list(most.values())) or filling.wide(len(most))
    except _TooManyRows:
        return None
    return dict(zip(most, vectors, strict=True))


def read_vectors(
    link: duckdb.DuckDBPyConnection, sql: str, names: Sequence[str], size: int, scratch: Path
) -> dict[str, Vector]:
    """Return vectors from a SELECT with one row for each cell, which has the cell's numbers."""
    vectors = _VectorFiller(link, sql, size, scratch, adds=False).wide(len(names))
    return dict(zip(names, vectors, strict=True))


def count_pairs(
    link: duckdb.DuckDBPyConnection, asked: ProfileSql, size: int
) -> NDArray[np.int32 | np.int64]:
    """Return the number of rows for each pair of a cell and a candidate.

    Rows arrive in batches, so memory does not depend on their number. Counts are 32 bits wide as
    long as that holds the number of all rows.
    """
    places = size * asked.candidates
    counts: NDArray[Any] = np.zeros(places + 1, dtype=np.int32)
    seen = 0
    for batch in fetch_batches(link, asked.places):
        seen += len(batch)
        if seen >= RANGE_OF_32_BITS:
            counts = counts.astype(np.int64, copy=False)
        np.add.at(counts, pair_indexes(batch, asked, places), counts.dtype.type(1))
    return counts[:places]


def fetch_batches(
    link: duckdb.DuckDBPyConnection, sql: str, wide: int = 2, most: int = BATCH_ROWS
) -> Generator[Any, None, None]:
    """Yield the rows of a SELECT as Arrow record batches, as the engine produces them.

    `wide`: the number of columns. `most`: the maximum rows of a batch; with many columns, batches
    have fewer rows. If the engine fails after its first batch, OSError or ValueError is raised,
    with the engine's message.
    """
    yield from link.sql(sql).to_arrow_reader(min(most, MOST_BATCH_NUMBERS // wide))


class _TooManyRows(Exception):
    """There are so many rows that their sums might not fit 64 bits."""


@dataclass(frozen=True)
class _VectorFiller:
    """Vectors that are filled from rows, which have a cell and one number for each vector.

    `adds`: whether the numbers of a cell's rows are added; otherwise each cell has only one row.
    """

    link: duckdb.DuckDBPyConnection
    sql: str
    size: int
    scratch: Path
    adds: bool

    def narrow(self, bounds: list[int]) -> list[Vector] | None:
        """Return vectors in memory, with 32 bits per cell if these suffice; None if they don't fit.

        `bounds`: for each vector, the largest absolute value that one row adds.
        """
        kinds = [np.dtype(np.int32 if bound < RANGE_OF_32_BITS else np.int64) for bound in bounds]
        if self.size * sum(kind.itemsize for kind in kinds) > MOST_HELD_BYTES:
            return None
        # Vectors have one additional cell, for rows that do not count.
        vectors: list[NDArray[Any]] = [np.zeros(self.size + 1, dtype=kind) for kind in kinds]
        for seen, cells, added in self._rows_by_batch(len(bounds)):
            for i, values in enumerate(added):
                if vectors[i].dtype == np.int32 and seen * bounds[i] >= RANGE_OF_32_BITS:
                    # For a moment, the narrow and the wide vector are both in memory.
                    if (
                        sum(v.nbytes for v in vectors) + self.size * BYTES_PER_CELL
                        > MOST_HELD_BYTES
                    ):
                        return None
                    vectors[i] = vectors[i].astype(np.int64)
                np.add.at(vectors[i], cells, values.astype(vectors[i].dtype, copy=False))
        return [vector[: self.size] for vector in vectors]

    def wide(self, number: int) -> list[Vector]:
        """Return vectors of 64 bits per cell, in memory, or in files of the scratch folder.

        Each range of cells in a file takes a pass over all rows. Only the values of a row decide
        whether it counts, so every pass counts the same rows.
        """
        parts = max(1, math.ceil(number * self.size * BYTES_PER_CELL / MOST_HELD_BYTES))
        if parts == 1:
            return list(self._fill_range(number, 0, self.size))
        stored = [StoredVector(self.scratch, f"vector-{i}") for i in range(number)]
        span = math.ceil(self.size / parts)
        for first in range(0, self.size, span):
            pieces = self._fill_range(number, first, min(first + span, self.size))
            for vector, values in zip(stored, pieces, strict=True):
                vector.append(values)
            del pieces, values  # before the next range needs the memory
        return list(stored)

    def _fill_range(self, number: int, first: int, last: int) -> list[Integers]:
        """Return `number` vectors of the cells from `first` up to, but without, `last`."""
        vectors = [np.zeros(last - first + 1, dtype=np.int64) for _ in range(number)]
        for _, cells, numbers in self._rows_by_batch(number):
            inside = (
                slice(None)
                if last - first == self.size
                else _positions_in_range(cells, first, last)
            )
            for vector, values in zip(vectors, numbers, strict=True):
                if self.adds:
                    np.add.at(vector, cells[inside] - first, values[inside])
                else:
                    vector[cells[inside] - first] = values[inside]
        return [vector[: last - first] for vector in vectors]

    def _rows_by_batch(self, number: int) -> Iterator[tuple[int, Integers, list[Integers]]]:
        """Yield, for each batch, the number of rows so far, and the batch's cells and numbers."""
        seen = 0
        for batch in fetch_batches(self.link, self.sql):
            seen += len(batch)
            if self.adds and seen > MOST_ROWS:
                raise _TooManyRows
            cells, *numbers = (to_numpy(batch.column(i)) for i in range(1 + number))
            yield seen, cells, numbers


def _positions_in_range(cells: Integers, first: int, last: int) -> Integers:
    """Return the positions of the cells from `first` up to, but without, `last`."""
    return np.flatnonzero((cells >= first) & (cells < last))


def pair_indexes(batch: Any, asked: ProfileSql, outside: int) -> NDArray[Any]:
    """Return, for each row of a record batch, the index of its pair of a cell and a candidate.

    The index of a row that does not count is `outside`. All indexes, `outside` included, are below
    2^31.
    """
    if asked.stored is None:
        return to_numpy(batch.column(0))
    cells, values = batch.columns
    places: NDArray[np.int32] = to_numpy_ignoring_nulls(cells) * np.int32(asked.candidates)
    # Whatever float an engine returns, a row counts for a candidate of its own cell.
    places += np.clip(
        _candidate_indexes(to_numpy_ignoring_nulls(values), asked.stored), 0, asked.candidates - 1
    )
    for column in (cells, values):
        is_present = validity_mask(column)
        if is_present is not None:  # the check is five times as fast as writing to no row
            places *= is_present
            places += (1 - is_present) * np.int32(outside)
    return places


def _candidate_indexes(
    stored: NDArray[Any], by: ClampedIntegers | RoundedFloats
) -> NDArray[np.int32]:
    """Return the index of the candidate to which each stored value is clamped or rounded."""
    if isinstance(by, ClampedIntegers):
        return _clamp_to_candidates(stored, by)
    return _round_to_candidates(stored, by)


def _clamp_to_candidates(stored: NDArray[Any], by: ClampedIntegers) -> NDArray[np.int32]:
    """Return the index of the candidate for each stored integer, clamped to the bounds."""
    if max(map(abs, (by.least, by.most, by.first))) >= RANGE_OF_32_BITS:
        stored = stored.astype(np.int64, copy=False)
    candidates: NDArray[Any] = np.clip(stored, by.least, by.most) - by.first
    return candidates.astype(np.int32, copy=False)


def _round_to_candidates(stored: NDArray[np.float64], by: RoundedFloats) -> NDArray[np.int32]:
    """Return the index of the nearest candidate for each stored float, after clamping."""
    with np.errstate(invalid="ignore"):  # missing values may be any float, also a signalling NaN
        scaled = np.clip(stored, by.least, by.most)
        if by.times != 1:
            scaled *= by.times
        if by.over != 1:
            scaled /= by.over
        whole = np.trunc(scaled)
        scaled -= whole  # exact, and so is what follows: adding a half could round
        whole += scaled >= 0.5
        if by.least < 0:
            whole -= scaled <= -0.5
        if by.first:
            whole -= by.first
        return whole.astype(np.int32)
