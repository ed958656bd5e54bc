"""Rows of cells that each have their own type, as columns of texts: each cell by itself.

SQLite and workbooks have no column types that hold for every cell. Each cell is converted to the
text of its value, whatever is above and below it, and then read as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.cell_texts import Reading, texts_of
from dprelease.exact.reading.sources import stored_columns
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 2**15
"""Rows of a batch."""

Row = Sequence[object]
Read = Callable[[], Iterator[Row]]
"""Yields the rows with their cells in the order of the columns; nothing is read before."""


@dataclass(frozen=True)
class CellRows:
    """The declared columns that a source of cells has, and its rows when they are read.

    `schema`: texts, except for columns that are refused for their type where they are used.
    `collations`: of columns that the source does not compare character by character.
    """

    declared: Declared
    schema: pa.Schema
    read: Read
    collations: Mapping[str, str] = field(default_factory=dict)

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read with the first batch."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
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
        import pyarrow as pa

        if not pa.types.is_large_string(field.type):
            return pa.nulls(sum(1 for _ in cells), field.type)
        column = self.declared.table.columns[field.name]
        table = self.declared.table
        is_id = field.name == table.privacy_unit.id
        texts = texts_of(cells, Reading.of_cells(column, table.time_zone, is_id=is_id))
        return pa.array(texts, field.type)


def cell_rows(
    declared: Declared,
    wanted: Sequence[str],
    read: Read,
    refused: Mapping[str, pa.DataType],
    collations: Mapping[str, str] = MappingProxyType({}),
) -> CellRows:
    """Return the rows of a source; `refused`: columns that may have lost values, by type."""
    import pyarrow as pa

    texts = pa.large_string()
    fields = [(name, refused.get(name, texts)) for name in wanted] or [("dp_row", pa.null())]
    return CellRows(declared, pa.schema(fields), read, collations)


def wanted_columns(declared: Declared, names: Sequence[str]) -> list[str]:
    """Return the declared columns among those of a source.

    Raises
    ------
    DataError
        DP-DATA-003 for names that differ only in case.
    """
    folded = [name.casefold() for name in names]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
    return [name for name in stored_columns(declared) if name in names]
