"""Hold the rows of ids once for several tables, each of which limits contributions by its cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from dprelease.exact.arrow_numbers import to_numpy, true_positions
from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.bounding.bounding_in_memory import NumberedIds, number_ids
from dprelease.exact.bounding.row_selection_numpy import IdRows, SelectionLimits, select_kept_rows
from dprelease.exact.connection import thread_count
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.resolve import Query
from dprelease.query.scan_planning import SharedSource, groups_bounded_together
from dprelease.statements.coded_rows import CompiledRows, TableColumns

FEW_COLUMNS, COLUMN_BYTES = 3, 9
"""The number of columns that `ROW_BYTES` includes, and the bytes of each further column."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldRows:
    """Rows as they were read from the engine, and the numbers of their ids."""

    batches: list[pa.RecordBatch]
    numbers: NumberedIds
    held_bytes: int
    """The bytes that the rows take of the limit for held rows."""

    @classmethod
    def read(
        cls, link: duckdb.DuckDBPyConnection, compiled: CompiledRows, taken: int = 0
    ) -> HeldRows | None:
        """Return the rows of a SELECT; None if they do not fit, or if an id exceeds 64 bits.

        `taken`: the bytes of other rows that are already held.

        Raises duckdb.Error if the engine fails.
        """
        row = bounding.ROW_BYTES + COLUMN_BYTES * max(0, compiled.wide - FEW_COLUMNS)
        most_rows = bounding.most_rows_in_memory(link, row, taken)
        narrow = bounding.narrow_ids(link, compiled.sql)
        if narrow is None or most_rows < 1:
            return None
        batches = bounding.read_all_batches(link, narrow[0], most_rows, thread_count(link), row)
        if batches is None:
            return None
        ids = pa.chunked_array([batch.column(0) for batch in batches], type=narrow[1])
        return cls(batches, number_ids(link, ids), held_bytes=len(ids) * row)

    def select_rows(
        self, link: duckdb.DuckDBPyConnection, columns: TableColumns, unit: PrivacyUnit, cells: int
    ) -> pa.Table:
        """Return the kept rows of one table, as `row_selection_numpy.select_kept_rows` does."""
        # All rows are in memory already, so none has to be dropped to make room.
        bounds = SelectionLimits(unit, cells, max(1, self.numbers.row_count), thread_count(link))
        return select_kept_rows(
            self._id_rows(columns), self.numbers.row_count, self.numbers.hashes, bounds
        )

    def _id_rows(self, columns: TableColumns) -> Iterator[IdRows]:
        for batch, ids in zip(self.batches, self.numbers.ids, strict=True):
            cells = batch.column(columns.cells)
            arrays = [batch.column(place) for _, place in columns.values]
            # The rows were read for several tables, and one without a cell here counts in another
            # table.
            if cells.null_count:
                counts = cells.is_valid()
                ids = ids[true_positions(counts)]
                cells, *arrays = (array.filter(counts) for array in (cells, *arrays))
            names = [name for name, _ in columns.values]
            values = pa.RecordBatch.from_arrays(arrays, names=names) if names else None
            yield IdRows(ids, self.numbers.low, to_numpy(cells), values)


@dataclass(slots=True)
class _Group:
    """A group of queries that share their rows.

    `left`: the number of queries of the group that have not run yet. `begun`: whether the rows have
    been read. `held`: the rows; None if they did not fit in memory, or if all queries have run.
    """

    sources: SharedSource
    left: int
    begun: bool = False
    held: tuple[HeldRows, CompiledRows] | None = None


class SharedRows:
    """The groups of queries that share their rows, and the rows that are held for these groups.

    Tables of several groups may alternate: the rows of each group are held until its last table.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        read: Callable[[SharedSource, int], tuple[HeldRows, CompiledRows] | None],
    ) -> None:
        """Plan for queries, each of which will be run once.

        `read` returns the rows of a group of queries, or None if they do not fit. Its second
        argument is the number of bytes that the rows of other groups take.
        """
        self._read = read
        self._groups = [_Group(one, len(one.queries)) for one in groups_bounded_together(queries)]
        self._coming = {
            query.name: (query, group) for group in self._groups for query in group.sources.queries
        }

    @property
    def held_bytes(self) -> int:
        """Return how many bytes the held rows take."""
        return sum(group.held[0].held_bytes for group in self._groups if group.held is not None)

    def of(self, query: Query) -> tuple[HeldRows, TableColumns] | None:
        """Return the rows of a query and its columns; None if the query must read them itself."""
        known, group = self._coming.pop(query.name, (None, None))
        if group is None:
            return None
        if known is query and not group.begun:
            group.held, group.begun = self._read(group.sources, self.held_bytes), True
        group.left -= 1
        held = group.held
        if not group.left:
            group.held = None
        if held is None or known is not query:
            return None
        return held[0], held[1].columns[query.name]
