"""Read Parquet files by Arrow, where the engine can't read a column unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.errors.catalogue.data_errors import CONVERT
from dprelease.exact.reading.frames import read_as_declared
from dprelease.exact.reading.sources import stored_columns
from dprelease.exact.reading.stored_types import IN_MILLISECONDS, Types
from dprelease.exact.results.vectors import LARGE_BATCH_ROWS
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FileBatches:
    """The declared columns of Parquet files with the same types, as Arrow reads them.

    The engine multiplies timestamps in milliseconds as it reads them, and fails at one outside its
    calendar. Arrow leaves them unchanged.
    """

    declared: Declared
    files: tuple[Path, ...]
    types: Types
    """The engine's types of the columns, some of which may be in `IN_MILLISECONDS`."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with the types that they have in common in all files; reads no row.

        Raises DataError: DP-DATA-004 for a type that no declared type is read from.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        stored = [
            # Absolute, because Arrow takes a relative name such as s3:x.parquet for the address of
            # a store.
            self._read_declared_columns(pq.read_schema(file.absolute()).empty_table()).schema
            for file in self.files
        ]
        fields = {name: [one.field(name).type for one in stored] for name in stored[0].names}
        return pa.schema([(name, self._common_type(name, kinds)) for name, kinds in fields.items()])

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; files are read when the first batch is requested."""
        import pyarrow as pa

        schema = self.schema
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of all files, cast to the schema, in record batches."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path in self.files:
            with pq.ParquetFile(path.absolute()) as file:
                for batch in file.iter_batches(LARGE_BATCH_ROWS, columns=schema.names):
                    yield from (
                        self._read_declared_columns(pa.table(batch)).cast(schema).to_batches()
                    )

    def _read_declared_columns(self, table: pa.Table) -> pa.Table:
        """Return the declared columns of a table in types that the engine reads."""
        import pyarrow as pa

        columns = {}
        for name in stored_columns(self.declared):
            if name not in table.column_names:
                continue
            if self.types[name] in IN_MILLISECONDS:
                columns[name] = _to_milliseconds(table[name])
            else:
                columns[name] = _to_large_string(read_as_declared(table[name], name, self.declared))
        return pa.table(columns)

    def _common_type(self, name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
        """Return the type that a column has in common in all files; raise DP-DATA-004 if none."""
        import pyarrow as pa

        if len(set(kinds)) == 1:
            return kinds[0]
        if all(map(pa.types.is_integer, kinds)):
            return pa.int64()
        declared = getattr(self.declared.table.columns[name], "type", "cut")
        several = "several types"
        raise DataError(
            "DP-DATA-004", column=name, physical=several, declared=declared, way=CONVERT
        )


def _to_milliseconds(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the timestamps of a column that a file stores in milliseconds, in UTC.

    No value can fail, because the file stores each as 64 bits of milliseconds.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ticks = instants.cast(pa.int64())
    if instants.type.unit == "s":  # the original unit, by Arrow's note in the file
        ticks = pc.multiply(ticks, 1000)
    return ticks.cast(pa.timestamp("ms"))


def _to_large_string(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with texts as large strings, whatever text type the writer used."""
    import pyarrow as pa

    kind = column.type
    texts = (
        pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_string(kind)
    )
    if texts or pa.types.is_dictionary(kind):
        return column.cast(pa.large_string())
    return column
