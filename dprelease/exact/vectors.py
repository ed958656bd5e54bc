"""True vectors filled batch by batch: 4 bytes a cell while rows allow it, on disk if many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dprelease.exact.table import Integers
from dprelease.query.aggregate import SquareSum, Sum
from dprelease.query.measure import Measure

BATCH = 2**20
"""Rows that come from the engine at a time."""

MOST_ROWS = 2**32

HELD = 2**30
"""Bytes of one query's vectors that are kept in memory; more lie in a file of the scratch folder,
where the system keeps as much of them at hand as it has room for."""

NARROW = 2**31
"""What 32 bits hold; a vector starts that narrow, and is widened before rows could exceed it."""

ZEROS = 2**24

Vector = NDArray[np.int32 | np.int64]


def most_added(measure: Measure) -> int:
    """Return the most, in size, that one row adds to a vector."""
    aggregate = measure.aggregate
    if isinstance(aggregate, Sum | SquareSum):
        return max(abs(aggregate.least), abs(aggregate.most))
    return measure.sensitivity.largest_shift


def summed(
    link: duckdb.DuckDBPyConnection, sql: str, most: Mapping[str, int], size: int, scratch: Path
) -> dict[str, Vector] | None:
    """Return vectors added up row by row, for more cells than the engine groups well.

    `sql`: rows of a cell and what the row adds to each vector, at most `most` in size. 64 bits
    can't overflow below `MOST_ROWS` rows of 2^30 each; None where there are more rows. How wide a
    vector is depends on the number of rows, never on a value.

    Raises
    ------
    MemoryError
        If there is no room for the vectors, in memory or in the scratch folder.
    """
    places = _Places(size, scratch)
    bounds = list(most.values())
    vectors = [places.zeros(np.int32 if bound < NARROW else np.int64) for bound in bounds]
    seen = 0
    for batch in batches(link, sql):
        seen += len(batch)
        if seen > MOST_ROWS:
            return None
        cells, *added = (batch.column(i).to_numpy() for i in range(batch.num_columns))
        for i, values in enumerate(added):
            if vectors[i].dtype == np.int32 and seen * bounds[i] >= NARROW:
                vectors[i] = places.widened(vectors[i])
            np.add.at(vectors[i], cells, values.astype(vectors[i].dtype, copy=False))
    return dict(zip(most, vectors, strict=True))


def grouped(
    link: duckdb.DuckDBPyConnection, sql: str, names: Sequence[str], size: int, scratch: Path
) -> dict[str, Vector]:
    """Return vectors of which the engine gives whole cells, a row each.

    Raises
    ------
    MemoryError
        As `summed`.
    """
    places = _Places(size, scratch)
    vectors = {name: places.zeros(np.int64) for name in names}
    for batch in batches(link, sql):
        cells = batch.column(0).to_numpy()
        for i, vector in enumerate(vectors.values(), 1):
            vector[cells] = batch.column(i).to_numpy()
    return vectors


def counted(link: duckdb.DuckDBPyConnection, sql: str, places: int) -> Integers:
    """Return how often each place occurs; rows come in batches, so memory does not grow."""
    counts: Integers = np.zeros(places, dtype=np.int64)
    for batch in batches(link, sql):
        np.add.at(counts, batch.column(0).to_numpy(), 1)
    return counts


def batches(link: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Any]:
    """Yield the rows of a SELECT as Arrow record batches, as the engine makes them.

    An engine that fails after its first batch raises OSError or ValueError, with its own words.
    """
    yield from link.sql(sql).to_arrow_reader(BATCH)


class _Places:
    """Where vectors lie: in memory up to `HELD` bytes, then in the scratch folder."""

    def __init__(self, size: int, scratch: Path) -> None:
        self._size, self._scratch = size, scratch
        self._held = self._files = 0

    def zeros(self, kind: type[np.int32] | type[np.int64]) -> Vector:
        length = self._size * np.dtype(kind).itemsize
        if self._held + length <= HELD:
            self._held += length
            return np.zeros(self._size, dtype=kind)
        self._files += 1
        path = self._scratch / f"vector-{self._files}"
        failed = False
        try:
            _reserve(path, length)
        except OSError:
            failed = True
        if failed:
            raise MemoryError("the scratch folder has no room for the vectors of a query")
        mapped = np.memmap(path, dtype=kind, mode="r+", shape=(self._size,))
        path.unlink()  # the mapping keeps it; nothing is left behind, not even by a kill
        return np.asarray(mapped)

    def widened(self, vector: Vector) -> Vector:
        wide = self.zeros(np.int64)
        wide[:] = vector
        if not isinstance(vector.base, np.memmap):
            self._held -= vector.nbytes
        return wide


def _reserve(path: Path, length: int) -> None:
    """Write zeros: a mapped page that the disk has no room for would end the process."""
    zeros = bytes(min(length, ZEROS))
    with path.open("xb") as file:
        while length > 0:
            length -= file.write(zeros[: min(length, len(zeros))])
