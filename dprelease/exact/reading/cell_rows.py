"""Convert rows of cells, each of which has its own type, to columns of texts.

In SQLite and in workbooks, a column has no type that holds for every cell. Each cell is converted
to the text of its value, whatever the cells above and below contain. The text is then read as
declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.cell_texts import TextReading, texts_of
from dprelease.exact.reading.sources import stored_columns
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 2**15
"""Maximum rows of a batch."""

Row = Sequence[object]
ReadRows = Callable[[], Iterator[Row]]
"""A function that yields the rows, each with its cells in the order of the columns.

The source is not read before the first row is requested.
"""


@dataclass(frozen=True)
class CellRows:
    """The declared columns that a source of cells has, and its rows, which are read on request.

    `schema`: the columns with their types. The type is that of texts, except for columns that a
    query may not use because of their type. `collations`: the columns that the source does not
    compare character by character, as in `OpenedSource`.
    """

    declared: Declared
    schema: pa.Schema
    read: ReadRows
    collations: Mapping[str, str] = field(default_factory=dict)

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; the source is read when the first batch is requested."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches of at most `MOST_ROWS` rows."""
        rows: list[Row] = []
        for row in self.read():
            rows.append(row)
            if len(rows) == MOST_ROWS:
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def _batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        import pyarrow as pa

        cells = zip(*rows, strict=True)
        arrays = [
            self._array(field, column) for field, column in zip(self.schema, cells, strict=False)
        ]
        arrays = arrays or [pa.nulls(len(rows))]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, field: pa.Field, cells: Iterable[object]) -> pa.Array:
        """Return the values of one column as an Arrow array, with texts as declared."""
        import pyarrow as pa

        if not pa.types.is_large_string(field.type):
            return pa.nulls(sum(1 for _ in cells), field.type)
        column = self.declared.table.columns[field.name]
        table = self.declared.table
        is_id = field.name in table.ids
        texts = texts_of(cells, TextReading.of_cells(column, table.time_zone, is_id=is_id))
        return pa.array(texts, field.type)


def cell_rows(
    declared: Declared,
    wanted: Sequence[str],
    read: ReadRows,
    refused: Mapping[str, pa.DataType],
    collations: Mapping[str, str] = MappingProxyType({}),
) -> CellRows:
    """Return the declared columns of a source of cells, and its rows.

    `wanted`: the columns that `read` yields. `refused`: columns whose values may have been changed
    when they were stored, and the Arrow type for which a query that uses them is refused.
    """
    import pyarrow as pa

    texts = pa.large_string()
    fields = [(name, refused.get(name, texts)) for name in wanted] or [("dp_row", pa.null())]
    return CellRows(declared, pa.schema(fields), read, collations)


def wanted_columns(declared: Declared, names: Sequence[str]) -> list[str]:
    """Return the declared columns that a source has; `names`: all columns of the source.

    Raises DataError: DP-DATA-003 for names that differ only in case.
    """
    folded = [name.casefold() for name in names]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
    return [name for name in stored_columns(declared) if name in names]
