"""DuckDB relations of the caller as sources: fetched once, batch by batch, and never asked more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import DataError
from dprelease.exact.reading.frames import read_as_declared
from dprelease.exact.reading.sources import named, stored_columns
from dprelease.exact.results.vectors import LARGE
from dprelease.schema.load import Declared
from dprelease.system.answered import answered
from dprelease.system.late_dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


def is_relation(frame: object) -> bool:
    """Return whether a frame is a relation of some DuckDB connection."""
    return isinstance(frame, duckdb.DuckDBPyRelation)


@dataclass(frozen=True)
class Batches:
    """The declared columns that a relation has: their types now, their rows when they are read.

    The caller's connection runs the caller's own relation and nothing else: no text of ours, no
    table, no setting; once without its rows, and once for them.
    """

    declared: Declared
    frame: duckdb.DuckDBPyRelation
    wanted: tuple[str, ...]
    schema: pa.Schema

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read with the first batch."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._read())

    def _read(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in self.frame.to_arrow_reader(LARGE):
            yield from _batch(pa.table(batch), self.wanted, self.declared).to_batches()


def batches_of(frame: object, declared: Declared) -> Batches:
    """Return the declared columns that a relation has; reads none of its rows.

    Raises
    ------
    DataError
        DP-DATA-001 if the relation can't be run, DP-DATA-003 for names that differ by case only,
        DP-DATA-004 for a type that can't be read as declared.
    """

    if not isinstance(frame, duckdb.DuckDBPyRelation):
        raise TypeError("not a relation")
    empty: pa.Table | None = None
    names: list[str] = []
    with answered():
        try:
            names = list(frame.columns)  # Arrow has other names for those that differ by case
            empty = frame.limit(0).to_arrow_table()
        except (duckdb.Error, MemoryError, OSError, ValueError):
            empty = None
    if empty is None:
        raise DataError("DP-DATA-001", **named(declared, False), format="a relation")
    folded = [name.casefold() for name in names]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
    wanted = tuple(name for name in stored_columns(declared) if name in names)
    return Batches(declared, frame, wanted, _batch(empty, wanted, declared).schema)


def _batch(table: pa.Table, wanted: Sequence[str], declared: Declared) -> pa.Table:
    import pyarrow as pa

    if not wanted:  # rows alone are counted
        return pa.table({"dp_row": pa.nulls(len(table))})
    return pa.table({name: read_as_declared(table[name], name, declared) for name in wanted})
