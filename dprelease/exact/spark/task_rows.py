"""What a task gets from Spark, as Arrow tables of a source's rows, types kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from dprelease.exact.reading.sources import TextReader
from dprelease.query import quoting
from dprelease.statements.physical import base_type

CHUNK = 2**18
"""Rows that are read, or counted, at a time."""


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


class TypesDiffer(Exception):
    """A column has another type in a task than it had when the statement was made."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How the rows of one table come out of Spark.

    `physical`: the engine's types of the columns that are read. Without `reader` and `packed` they
    are columns of Spark itself, in this order; types of `ARROW` come as another that holds them.
    `packed`: each Spark row is `content`, an Arrow stream. `reader`: each is a whole text file,
    `content`, read as the engine duckdb reads it, so that a broken line means what it means there.
    """

    physical: Mapping[str, str]
    packed: bool = False
    reader: TextReader | None = None

    @property
    def names(self) -> list[str]:
        """Return the declared names of the columns."""
        return list(self.physical)

    def tables(
        self, batches: Iterable[pa.RecordBatch], link: duckdb.DuckDBPyConnection, folder: Path
    ) -> Iterator[pa.Table]:
        """Yield Arrow tables of at most about `CHUNK` rows.

        Raises
        ------
        pyarrow.ArrowException, duckdb.Error
            If the source is not what its format promises.
        TypesDiffer
            If it is, but not what it was.
        """
        for table in self._read(batches, link, folder):
            table.validate(full=True)  # texts that are no UTF-8 would be read unchecked
            self._check(table, link)
            yield table

    def _read(
        self, batches: Iterable[pa.RecordBatch], link: duckdb.DuckDBPyConnection, folder: Path
    ) -> Iterator[pa.Table]:
        if self.reader is not None:
            for content in _contents(batches):
                yield from self._text(content, link, folder)
        elif self.packed:
            for content in _contents(batches):
                table = pa.ipc.open_stream(content).read_all()
                yield table.select(self.names) if self.names else table
        else:
            for table in _gathered(batches):
                yield self._restored(table.rename_columns(self.names)) if self.names else table

    def _restored(self, table: pa.Table) -> pa.Table:
        for place, (name, kind) in enumerate(self.physical.items()):
            if kind in ARROW:
                table = table.set_column(place, name, table[name].cast(ARROW[kind]))
        return table

    def _text(
        self, content: pa.Buffer, link: duckdb.DuckDBPyConnection, folder: Path
    ) -> Iterator[pa.Table]:
        if self.reader is None:
            raise TypeError("the rows are no text")
        file = folder / "text"
        self.reader.packing.write(pa.BufferReader(content), file)
        try:
            chosen = ", ".join(quoting.identifier(name) for name in self.names) or "1 AS one"
            source = self.reader.relation([file])
            # A connection of its own: others ask something while this one is still reading.
            with link.cursor() as reading:
                for batch in reading.sql(f"SELECT {chosen} FROM {source}").to_arrow_reader(CHUNK):
                    yield pa.Table.from_batches([batch])
        finally:
            file.unlink()

    def _check(self, table: pa.Table, link: duckdb.DuckDBPyConnection) -> None:
        link.register("dp_checked", table.slice(0, 0))
        kinds = {str(n): str(k) for n, k, *_ in link.execute("DESCRIBE dp_checked").fetchall()}
        link.unregister("dp_checked")
        for name, kind in self.physical.items():
            if base_type(kinds.get(name, "")) != base_type(kind):
                raise TypesDiffer(name)


def packed(table: pa.Table) -> bytes:
    """Return an Arrow table as the bytes of a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _contents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    for batch in batches:
        for content in batch.column("content"):
            yield content.as_buffer()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
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
