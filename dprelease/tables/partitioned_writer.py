"""Split tables into parts, each of which is written to a separate file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dprelease.postprocess.partition import Parts
from dprelease.tables.family_tables import Piece

if TYPE_CHECKING:
    import pyarrow as pa


def split_into_parts(name: str, tables: Iterator[pa.Table], parts: Parts | None) -> Iterator[Piece]:
    """Yield the rows of a table in order, in pieces that end where a part of the table ends.

    The table has one row for each cell.
    """
    done = 0
    for table in tables:
        if parts is None:
            yield Piece(name, table)
            continue
        for part, rows in parts.between(done, done + len(table)):
            size = rows.stop - rows.start
            taken = (
                table
                if size == len(table)
                else _with_compact_dictionaries(table.slice(rows.start, size))
            )
            yield Piece(name, taken, part)
        done += len(table)


def _with_compact_dictionaries(table: pa.Table) -> pa.Table:
    """Return the same rows, with each dictionary reduced to the texts that occur in these rows."""
    import pyarrow as pa

    columns = [
        _compact_dictionary(column.combine_chunks())
        if pa.types.is_dictionary(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _compact_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the same texts with a dictionary of only these, in order of first occurrence."""
    import pyarrow as pa

    codes = column.indices.dictionary_encode()  # encode the codes themselves, not the texts
    return pa.DictionaryArray.from_arrays(codes.indices, column.dictionary.take(codes.dictionary))
