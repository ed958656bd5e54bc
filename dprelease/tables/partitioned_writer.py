"""Split tables into parts, each written to a separate file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dprelease.postprocess.partition import Parts
from dprelease.tables.family_tables import Piece

if TYPE_CHECKING:
    import pyarrow as pa


def in_parts(name: str, tables: Iterator[pa.Table], parts: Parts | None) -> Iterator[Piece]:
    """Yield the rows of a table with a row for each cell, in order, split at the ends of parts."""
    done = 0
    for table in tables:
        if parts is None:
            yield Piece(name, table)
            continue
        for part, rows in parts.between(done, done + len(table)):
            size = rows.stop - rows.start
            taken = table if size == len(table) else _own(table.slice(rows.start, size))
            yield Piece(name, taken, part)
        done += len(table)


def _own(table: pa.Table) -> pa.Table:
    """Return rows of a larger table, with dictionaries reduced to the texts in these rows."""
    import pyarrow as pa

    columns = [
        _compact_dictionary(column.combine_chunks())
        if pa.types.is_dictionary(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _compact_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return texts with a dictionary of only these texts, in order of first occurrence."""
    import pyarrow as pa

    codes = column.indices.dictionary_encode()  # encodes the codes, without reading texts
    return pa.DictionaryArray.from_arrays(codes.indices, column.dictionary.take(codes.dictionary))
