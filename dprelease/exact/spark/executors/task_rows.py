"""What a task gets of a source, as a relation of DuckDB that has the types of the whole source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from dprelease.query import quoting
from dprelease.statements.values.physical import base_type

CHUNK = 2**18
"""Rows that come from Spark, or from the driver, at a time."""

ARROW = {
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ_NS": pa.timestamp("ns", "UTC"),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
}
"""Types that Spark does not know, but whose every value it hands over as another type's."""

Link = duckdb.DuckDBPyConnection


class TypesDiffer(Exception):
    """A column has another type in a task than it had when the statement was made."""


class TaskRows(Protocol):
    """How a task gets its rows of a table."""

    @property
    def physical(self) -> Mapping[str, str]:
        """Return the engine's types of the columns that are read."""
        ...

    def parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """Give the relation the rows of the task, those of one part after the other.

        `batches`: what comes from Spark. `folder`: a private one.

        Raises
        ------
        pyarrow.ArrowException, duckdb.Error, OSError
            If the source is not what its format promises.
        TypesDiffer
            If it is, but not what it was.
        """
        ...


@dataclass(frozen=True)
class SparkRows:
    """Columns that Spark reads, in this order; types of `ARROW` come as another that holds them."""

    physical: Mapping[str, str]

    def parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """See `Rows`."""
        for table in _tables_from_batches(batches):
            if self.physical:
                table = self._restore_types(table.rename_columns(list(self.physical)))
            yield from register_table(table, self.physical, link, relation)

    def _restore_types(self, table: pa.Table) -> pa.Table:
        for place, (name, kind) in enumerate(self.physical.items()):
            if kind in ARROW:
                table = table.set_column(place, name, table[name].cast(ARROW[kind]))
        return table


@dataclass(frozen=True)
class PackedRows:
    """Rows that come from the driver: each row of Spark is `content`, an Arrow stream."""

    physical: Mapping[str, str]

    def parts(
        self, batches: Iterable[pa.RecordBatch], link: Link, folder: Path, relation: str
    ) -> Iterator[None]:
        """See `Rows`."""
        for batch in batches:
            for content in batch.column("content"):
                table = from_ipc_bytes(content.as_buffer())
                table = table.select(list(self.physical)) if self.physical else table
                yield from register_table(table, self.physical, link, relation)


def register_table(
    table: pa.Table, physical: Mapping[str, str], link: Link, relation: str
) -> Iterator[None]:
    """Let a relation be a table, for one turn; raises as `Rows.parts`."""
    table.validate(full=True)  # texts that are no UTF-8 would be read unchecked
    link.register(relation, table)
    check(physical, link, relation)
    yield
    link.unregister(relation)


def check(physical: Mapping[str, str], link: Link, relation: str) -> None:
    """Raise TypesDiffer unless the relation has these columns."""
    told = link.execute(f"DESCRIBE {relation}").fetchall()
    kinds = {str(name): str(kind) for name, kind, *_ in told}
    for name, kind in physical.items():
        if base_type(kinds.get(name, "")) != base_type(kind):
            raise TypesDiffer(name)


def columns_of(physical: Mapping[str, str]) -> str:
    """Return the columns of a SELECT."""
    return ", ".join(map(quoting.identifier, physical)) or "1 AS one"


PACKING = pa.ipc.IpcWriteOptions(compression="lz4")


def to_ipc_bytes(table: pa.Table) -> bytes:
    """Return an Arrow table as the bytes of a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=PACKING) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def from_ipc_bytes(content: object) -> pa.Table:
    """Return the Arrow table of the bytes of a stream."""
    return pa.ipc.open_stream(content).read_all()


def _tables_from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of about `CHUNK` rows: Spark's own batches are small."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)
