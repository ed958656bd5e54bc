"""Write rows as CSV: RFC 4180 in UTF-8, with every digit of the Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

END = "\r\n"
QUOTED = r'^$|[",\r\n]|^\s|\s$'
"""Pattern of texts that need quotes; an empty text is quoted, since it is not a missing value."""

CELLS = 1 << 19
"""Maximum number of cells that are converted to text at once."""

PLAIN_SCALE = 6
"""Maximum number of decimals that Arrow writes without an exponent."""


def csv_lines(names: Iterable[str], batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a CSV file in pieces: a header line, then one line per row.

    A missing value is an empty field. In a file with a single column, this empty field is quoted,
    because readers skip empty lines.
    """
    yield (",".join(map(quote_field, names)) + END).encode()
    for batch in batches:
        size = max(1, CELLS // max(1, batch.num_columns))
        for first in range(0, batch.num_rows, size):
            yield _batch_lines(batch.slice(first, size))


def quote_field(text: str) -> str:
    """Return a text as a CSV field."""
    plain = text and text == text.strip() and not set('",\r\n') & set(text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _batch_lines(batch: pa.RecordBatch) -> bytes:
    """Return the rows of a batch as lines of a CSV file."""
    import pyarrow.compute as pc

    fields = [fields_of(column) for column in batch.columns]
    nothing = "" if len(fields) > 1 else '""'
    rows = pc.binary_join_element_wise(
        *fields, ",", null_handling="replace", null_replacement=nothing
    )
    # RFC 4180 ends lines with CR and LF.
    ended = pc.binary_join_element_wise(rows, "", END)
    return "".join(ended.to_pylist()).encode()


def fields_of(column: pa.Array) -> pa.Array:
    """Return values as CSV fields, which are quoted if necessary; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return plain_texts(column)
    marked = pc.replace_substring(column, pattern='"', replacement='""')
    marked = pc.binary_join_element_wise('"', marked, '"', "")
    return pc.if_else(pc.match_substring_regex(column, QUOTED), marked, column)


def plain_texts(column: pa.Array) -> pa.Array:
    """Return values as texts, with all digits of numbers; null stays null."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):  # the shortest text that parses as the same number
        shortest = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(shortest, type=pa.string())
    if pa.types.is_decimal(kind) and kind.scale > PLAIN_SCALE:
        plain = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.array(plain, type=pa.string())
    if pa.types.is_timestamp(kind):
        import pyarrow.compute as pc

        seconds = column.cast(pa.timestamp("s")).cast(pa.string())
        # The type dateTime of XML Schema, which the metadata names, has a T.
        return pc.replace_substring(seconds, " ", "T")
    return column if pa.types.is_string(kind) else column.cast(pa.string())
