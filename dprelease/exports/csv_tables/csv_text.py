"""Rows as CSV: RFC 4180 in UTF-8, each number as the Parquet file has it, to the last digit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

END = "\r\n"
QUOTED = r'^$|[",\r\n]|^\s|\s$'
"""Of a text: what it has to be quoted for. An empty text is no missing value."""

CELLS = 1 << 19
"""Cells that are made text at once."""

PLAIN_SCALE = 6
"""Decimals of up to so many places Arrow writes without an exponent."""


def csv_lines(names: Iterable[str], batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a file piece by piece: a line of names, then one for each row.

    A missing value is an empty field, as missing as the last one of a line can be: where it is the
    only one, it is quoted, for readers pass over empty lines.
    """
    yield (",".join(map(quote_field, names)) + END).encode()
    for batch in batches:
        size = max(1, CELLS // max(1, batch.num_columns))
        for first in range(0, batch.num_rows, size):
            yield _lines(batch.slice(first, size))


def quote_field(text: str) -> str:
    """Return a text as a field."""
    plain = text and text == text.strip() and not set('",\r\n') & set(text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _lines(batch: pa.RecordBatch) -> bytes:
    import pyarrow.compute as pc

    fields = [fields_of(column) for column in batch.columns]
    nothing = "" if len(fields) > 1 else '""'
    rows = pc.binary_join_element_wise(
        *fields, ",", null_handling="replace", null_replacement=nothing
    )
    ended = pc.binary_join_element_wise(rows, "", END)
    return "".join(ended.to_pylist()).encode()


def fields_of(column: pa.Array) -> pa.Array:
    """Return values as fields, quoted where they have to be; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return plain_texts(column)
    marked = pc.replace_substring(column, pattern='"', replacement='""')
    marked = pc.binary_join_element_wise('"', marked, '"', "")
    return pc.if_else(pc.match_substring_regex(column, QUOTED), marked, column)


def plain_texts(column: pa.Array) -> pa.Array:
    """Return values as texts, numbers to the last digit; null stays null."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):  # the shortest text that is read as the same number
        shortest = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(shortest, type=pa.string())
    if pa.types.is_decimal(kind) and kind.scale > PLAIN_SCALE:
        plain = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.array(plain, type=pa.string())
    return column if pa.types.is_string(kind) else column.cast(pa.string())
