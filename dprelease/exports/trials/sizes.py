"""Compute an upper bound of the bytes of all formats of a release, from its declarations.

The bound assumes the maximum length of texts of numbers, keys and names. Per format it adds the
uncompressed markup around them, and the temporary files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata, code_text
from dprelease.exports.layout import max_rows

NUMBER_BYTES = {
    "bool": 5,
    "date32[day]": 10,
    "timestamp[us]": 19,
    "double": 25,
    "int64": 20,
    "int32": 11,
}
"""Bytes of a number as text, by Arrow type; decimals have 41."""

ESCAPED_BYTES = 6
"""Bytes of an escaped character in XML or JSON."""

LINKS, CELL = 192, 48
"""Bytes of the names that each observation repeats, and of the markup around a cell."""

KEYS = 24
"""Cells that a row of a workbook may have for keys, their codes, and keys of other tables."""

ONCE, DESCRIBED = 1 << 16, 1 << 12
"""Bytes of a format without rows; and of the metadata of a column or code, per language."""

PAGE = 1 << 22
"""Bytes of a report, whose pictures and lists are truncated to fit."""


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of a table: its rows, its columns except keys, and bytes per row of keys and others.

    `row`: the bytes of all columns in CSV; the other fields are bytes in XML and JSON.
    """

    rows: int
    columns: int
    row: int
    keys: int
    others: int


ROWS: dict[str, Callable[[_Size], int]] = {
    "csv": lambda one: one.row,
    "excel": lambda one: 2 * (2 * one.keys + one.others + CELL * (one.columns + KEYS)),
    "json-stat": lambda one: one.others + CELL * one.columns,
    "sdmx-csv": lambda one: one.others + one.columns * (LINKS + one.keys),
    "mbi": lambda one: 8 * one.columns,
}
"""For each format with rows, a function that returns the bytes of one row of a table."""

WITHOUT_ROWS = frozenset({"report", "datapackage", "dcat", "registry", "dp-event"})
"""Formats whose size does not grow with rows. Formats in neither list count as workbooks."""


def max_bytes(names: Iterable[str], metadata: Metadata) -> int:
    """Return the maximum bytes of the formats; tables of unknown size are left out."""
    tables = [_table_size(table) for table in metadata.tables]
    described = ONCE + len(metadata.languages) * sum(map(_metadata_bytes, metadata.tables))
    total = 0
    for name in names:
        copies = len(metadata.languages) if name == "excel" else 1  # one workbook per language
        total += copies * (described + PAGE * (name == "report"))
        if name not in WITHOUT_ROWS:
            bytes_of = ROWS.get(name, ROWS["excel"])
            total += copies * sum(one.rows * bytes_of(one) for one in tables)
    return total


def _table_size(table: TableMetadata) -> _Size:
    others = [column for column in table.columns if column.role != Role.KEY]
    row, keys, values = (
        sum(map(_field_bytes, table.columns)),
        _escaped_row_bytes(table.keys),
        _escaped_row_bytes(others),
    )
    return _Size(max_rows(table) or 0, len(others), row, keys, values)


def _escaped_row_bytes(columns: Iterable[ColumnMetadata]) -> int:
    """Return the bytes of the fields of one row in XML or JSON."""
    return sum(
        _field_bytes(column) * (ESCAPED_BYTES if column.kind == "string" else 1)
        for column in columns
    )


def _field_bytes(column: ColumnMetadata) -> int:
    """Return the bytes of a value as a field of a text file, with quotes and separator."""
    if column.codes is not None:
        values = column.codes.values
        if isinstance(values, range):
            return 22
        return 4 + max((2 * len(code_text(value).encode()) for value in values), default=0)
    return 2 + NUMBER_BYTES.get(column.kind, 41)


def _metadata_bytes(table: TableMetadata) -> int:
    """Return the bytes of the metadata of a table's columns, and of each code of its keys."""
    size = DESCRIBED * (1 + len(table.columns))
    for column in table.columns:
        if column.codes is not None:
            values = column.codes.values
            size += len(values) * 2 * (LINKS + ESCAPED_BYTES * _field_bytes(column))
    return size
