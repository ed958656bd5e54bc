"""How many bytes the formats of a release have at most, from what is declared.

Texts of numbers, keys and names as long as they can be; for each format what it writes around them,
uncompressed, and what it writes beside and removes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata, code_text
from dprelease.exports.layout import most_rows

NUMBER = {"bool": 5, "date32[day]": 10, "double": 25, "int64": 20, "int32": 11}
"""Bytes of a number as text; decimals have 41."""

ESCAPED = 6
"""Bytes in the place of one, where XML or JSON can't have it."""

LINKS, CELL = 192, 48
"""Bytes of names around an observation that a line says again, and of marks around a cell."""

ONCE, DESCRIBED = 1 << 16, 1 << 12
"""Bytes of a format that has no rows, and of what it says of a column or a code, in a language."""

PAGE = 1 << 22
"""Bytes of a report, whose pictures and lists are as many as fit into it."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A table: its rows, its columns that are no keys; bytes of a row's keys, and of the others.

    `row`: of all of them, in CSV; the rest as XML and JSON have them.
    """

    rows: int
    columns: int
    row: int
    keys: int
    others: int


ROWS: dict[str, Callable[[_Size], int]] = {
    "csv": lambda one: one.row,
    "excel": lambda one: 2 * (one.keys + one.others + CELL * (one.columns + 8)),
    "json-stat": lambda one: one.others + CELL * one.columns,
    "sdmx-csv": lambda one: one.others + one.columns * (LINKS + one.keys),
    "mbi": lambda one: 8 * one.columns,
}
"""Bytes of one row of a table, of formats that have rows."""


def most_bytes(names: Iterable[str], metadata: Metadata) -> int:
    """Return how many bytes formats have at most; rows of unknown number left out."""
    tables = [_size(table) for table in metadata.tables]
    told = ONCE + len(metadata.languages) * sum(map(_metadata_size, metadata.tables))
    total = 0
    for name in names:
        bytes_of = ROWS.get(name)
        total += told + PAGE * (name == "report")
        if bytes_of is not None:
            total += sum(one.rows * bytes_of(one) for one in tables)
    return total


def _size(table: TableMetadata) -> _Size:
    others = [column for column in table.columns if column.role != Role.KEY]
    row, keys, values = (
        sum(map(_width, table.columns)),
        _escaped_width(table.keys),
        _escaped_width(others),
    )
    return _Size(most_rows(table) or 0, len(others), row, keys, values)


def _escaped_width(columns: Iterable[ColumnMetadata]) -> int:
    return sum(_width(column) * (ESCAPED if column.kind == "string" else 1) for column in columns)


def _width(column: ColumnMetadata) -> int:
    """Return the bytes of a value as a field of a text file, quoted and with what ends it."""
    if column.codes is not None:
        values = column.codes.values
        if isinstance(values, range):
            return 22
        return 4 + max((2 * len(code_text(value).encode()) for value in values), default=0)
    return 2 + NUMBER.get(column.kind, 41)


def _metadata_size(table: TableMetadata) -> int:
    """Return the bytes of what is said of a table: of its columns, and of each code of its keys."""
    said = DESCRIBED * (1 + len(table.columns))
    for column in table.columns:
        if column.codes is not None:
            values = column.codes.values
            said += len(values) * 2 * (LINKS + ESCAPED * _width(column))
    return said
