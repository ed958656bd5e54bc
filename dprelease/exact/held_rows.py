"""Rows of ids that are held once for several tables, each of which bounds them by its own cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact import bounding_in_memory as bounding
from dprelease.exact.arrow_numbers import numbers_of, places_of
from dprelease.exact.kept import Bounds, Rows, keep
from dprelease.exact.true_table import Integers
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.joint import bounded_together
from dprelease.query.resolve import Query
from dprelease.query.together import Together
from dprelease.statements.rows import Columns, CompiledRows

FEW_COLUMNS, COLUMN_BYTES = 3, 9
"""Columns that `ROW_BYTES` counts on, and what another one takes of each row that is held."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldRows:
    """Rows as they came, a number for the id of each, and the hash of the id of each number."""

    batches: list[pa.RecordBatch]
    codes: NDArray[np.int32]
    hashes: Integers

    @classmethod
    def read(cls, link: duckdb.DuckDBPyConnection, compiled: CompiledRows) -> HeldRows | None:
        """Return the rows of a SELECT; None where there is no room, or ids are too wide.

        Raises
        ------
        duckdb.Error
            If the engine fails.
        """
        more = COLUMN_BYTES * max(0, compiled.wide - FEW_COLUMNS)
        room = bounding.most_held(link, bounding.ROW_BYTES + more)
        narrow = bounding.narrowed(link, compiled.sql)
        if narrow is None or room < 1:
            return None
        batches = bounding.read_all(link, narrow[0], room, bounding.threads_of(link))
        if batches is None:
            return None
        ids = pa.chunked_array([batch.column(0) for batch in batches], type=narrow[1])
        return cls(batches, *bounding.numbered(link, ids))

    def kept(
        self, link: duckdb.DuckDBPyConnection, columns: Columns, unit: PrivacyUnit, cells: int
    ) -> pa.Table:
        """Return the rows of one table that count, as `bounding_in_memory` does."""
        bounds = Bounds(unit, cells, max(1, len(self.codes)), bounding.threads_of(link))
        return keep(self._blocks(columns), len(self.codes), self.hashes, bounds)

    def _blocks(self, columns: Columns) -> Iterator[Rows]:
        start = 0
        for batch in self.batches:
            codes, start = self.codes[start : start + len(batch)], start + len(batch)
            cells = batch.column(columns.cells)
            arrays = [batch.column(place) for _, place in columns.values]
            if cells.null_count:
                counts = cells.is_valid()
                codes = codes[places_of(counts)]
                cells, *arrays = (array.filter(counts) for array in (cells, *arrays))
            names = [name for name, _ in columns.values]
            values = pa.RecordBatch.from_arrays(arrays, names=names) if names else None
            yield Rows(codes, 0, numbers_of(cells), values)


class SharedRows:
    """Which of the queries that are to come share their rows, and the rows that are held."""

    def __init__(
        self,
        queries: Sequence[Query],
        read: Callable[[Together], tuple[HeldRows, CompiledRows] | None],
    ) -> None:
        """Plan for queries that are to come, each of which is asked once."""
        self._read = read
        shared = bounded_together(queries)
        self._sources = {query.name: one for one in shared for query in one.queries}
        self._left: dict[str, Query] = {}
        self._held: tuple[HeldRows, CompiledRows] | None = None

    def of(self, query: Query) -> tuple[HeldRows, Columns] | None:
        """Return the rows of a query and where its cells stand; None if it has to read them."""
        sources = self._sources.pop(query.name, None)
        if sources is None or not any(known is query for known in sources.queries):
            return None
        if query.name not in self._left:
            self._left = {one.name: one for one in sources.queries}
            self._held = self._read(sources)
        del self._left[query.name]
        held = self._held
        if not self._left:
            self._held = None
        return None if held is None else (held[0], held[1].columns[query.name])
