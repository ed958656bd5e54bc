"""Provide a task's rows of a source as a DuckDB relation with the types of the whole source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from dprelease.query import quoting
from dprelease.statements.values.physical import base_type

CHUNK_ROWS = 2**18
"""Rows from Spark, or from the driver, at a time."""

ARROW_TYPES = {
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ_NS": pa.timestamp("ns", "UTC"),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
}
"""Types that Spark does not have, each with the Arrow type to which a task converts its column."""

Link = duckdb.DuckDBPyConnection


class TypesDiffer(Exception):
    """A column has another type in a task than when the statement was compiled."""


class TaskRows(Protocol):
    """How a task gets its rows of a table."""

    @property
    def physical(self) -> Mapping[str, str]:
        """Return the engine's types of the columns that are read."""
        ...

    def register_parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Register the rows of the task as the relation, one part after the other.

        `batches`: data from Spark. `folder`: a private folder of the task.

        Raises pyarrow.ArrowException, duckdb.Error or OSError if the source is invalid in its
        format. Raises TypesDiffer if the source is valid, but its types have changed.
        """
        ...


@dataclass(frozen=True)
class SparkRows:
    """Rows that Spark reads; Spark sends columns with types in `ARROW_TYPES` as another type."""

    physical: Mapping[str, str]

    def register_parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Register the rows that Spark sends as the relation, one table after the other."""
        for table in _tables_from_batches(batches):
            if self.physical:
                table = self._restore_types(table.rename_columns(list(self.physical)))
            yield from register_table(table, self.physical, link, relation)

    def _restore_types(self, table: pa.Table) -> pa.Table:
        """Return a table whose columns have the stored types again, which Spark had changed."""
        for place, (name, kind) in enumerate(self.physical.items()):
            if kind in ARROW_TYPES:
                table = table.set_column(place, name, table[name].cast(ARROW_TYPES[kind]))
        return table


@dataclass(frozen=True)
class PackedRows:
    """Rows sent by the driver: each row of Spark is `content`, an Arrow stream."""

    physical: Mapping[str, str]

    def register_parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Register the rows of each packed Arrow table as the relation, one after the other."""
        for batch in batches:
            for content in batch.column("content"):
                table = from_ipc_bytes(content.as_buffer())
                table = table.select(list(self.physical)) if self.physical else table
                yield from register_table(table, self.physical, link, relation)


def register_table(
    table: pa.Table, physical: Mapping[str, str], link: Link, relation: str
) -> Iterator[None]:
    """Register a table as a relation, inside the block; raises as `TaskRows.register_parts`."""
    table.validate(full=True)  # otherwise texts in invalid UTF-8 would be read unchecked
    link.register(relation, table)
    require_types(physical, link, relation)
    yield
    link.unregister(relation)


def require_types(physical: Mapping[str, str], link: Link, relation: str) -> None:
    """Raise TypesDiffer unless the relation has these columns."""
    found_types = link.execute(f"DESCRIBE {relation}").fetchall()
    kinds = {str(name): str(kind) for name, kind, *_ in found_types}
    for name, kind in physical.items():
        if base_type(kinds.get(name, "")) != base_type(kind):
            raise TypesDiffer(name)


def select_list_sql(physical: Mapping[str, str]) -> str:
    """Return the SELECT list of these columns."""
    return ", ".join(map(quoting.identifier, physical)) or "1 AS one"


PACKING_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def to_ipc_bytes(table: pa.Table) -> bytes:
    """Return an Arrow table as the bytes of a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=PACKING_OPTIONS) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def from_ipc_bytes(content: object) -> pa.Table:
    """Return the Arrow table of the bytes of a stream."""
    return pa.ipc.open_stream(content).read_all()


def _tables_from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of about `CHUNK_ROWS` rows, because Spark's batches are small."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)
