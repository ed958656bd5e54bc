"""DuckDB relations of the caller as sources: fetched once, batch by batch, and never asked more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import DataError
from dprelease.exact.frames import read_as_declared
from dprelease.exact.sources import stored_columns
from dprelease.exact.vectors import BATCH
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pyarrow as pa


def is_relation(frame: object) -> bool:
    """Return whether a frame is a relation of some DuckDB connection."""
    return isinstance(frame, duckdb.DuckDBPyRelation)


def reader_of(frame: object, declared: Declared) -> pa.RecordBatchReader:
    """Return the declared columns that a relation has, as Arrow batches still to be fetched.

    The caller's connection runs the caller's own relation and nothing else: no text of ours, no
    table, no setting. Names and types are known before; rows are read with the first batch.

    Raises
    ------
    DataError
        DP-DATA-001 if the relation can't be run, DP-DATA-003 for names that differ by case only,
        DP-DATA-004 for a type that can't be read as declared.
    """
    import pyarrow as pa

    if not isinstance(frame, duckdb.DuckDBPyRelation):
        raise TypeError("not a relation")
    reader: pa.RecordBatchReader | None = None
    names: list[str] = []
    try:
        names = list(frame.columns)
        reader = frame.to_arrow_reader(BATCH)
    except (duckdb.Error, MemoryError, OSError, ValueError):
        reader = None
    if reader is None:
        raise DataError("DP-DATA-001", table=declared.table.name, format="a relation")
    folded = [name.casefold() for name in names]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
    wanted = [name for name in stored_columns(declared) if name in names]
    schema = _batch(reader.schema.empty_table(), wanted, declared).schema
    return pa.RecordBatchReader.from_batches(schema, _batches(reader, wanted, declared))


def _batches(
    reader: pa.RecordBatchReader, wanted: Sequence[str], declared: Declared
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in reader:
        yield from _batch(pa.table(batch), wanted, declared).to_batches()


def _batch(table: pa.Table, wanted: Sequence[str], declared: Declared) -> pa.Table:
    import pyarrow as pa

    if not wanted:  # rows alone are counted
        return pa.table({"dp_row": pa.nulls(len(table))})
    return pa.table({name: read_as_declared(table[name], name, declared) for name in wanted})
