"""Try formats on blank tables before any privacy budget is charged.

Everything that a format reads is known in advance except the values. So errors in labels, names,
types or packages already occur on blank tables, and cost nothing.

A blank table has the columns, keys and types of a published table, and values that do not come from
data. A small table has all its cells. A larger table has some cells between its first and its last
cell, so that rows are missing for some keys, as in sparse tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.metadata import (
    Code,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
    code_text,
)
from dprelease.documents.release_manifest import GuaranteedManifest
from dprelease.errors import Place
from dprelease.exports.cubes import suppressed_columns
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import max_rows
from dprelease.exports.px.px_values import max_cells
from dprelease.exports.writer import write_formats
from dprelease.schema.release_parts.extension_names import PARQUET
from dprelease.system.deferred_signals import temporary_folder
from dprelease.tables.formats import write_table

if TYPE_CHECKING:
    import pyarrow as pa


# Compute an upper bound of the bytes of all formats of a release, from its declarations.
#
# The bound assumes the maximum length of texts of numbers, keys and names. Per format it adds the
# uncompressed markup around them, and the temporary files.

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

LINKS, CELL, ODS_CELL = 192, 48, 128
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

    `combinations`: the number of combinations of key values. `row`: the bytes of all columns in
    CSV; the other fields are bytes in XML and JSON.
    """

    rows: int
    combinations: int
    columns: int
    row: int
    keys: int
    others: int


TABLES: dict[str, Callable[[_Size], int]] = {
    "csv": lambda one: one.rows * one.row,
    "excel": lambda one: one.rows * 2 * (2 * one.keys + one.others + CELL * (one.columns + KEYS)),
    "ods": lambda one: one.rows * 2 * (2 * one.keys + one.others + ODS_CELL * (one.columns + KEYS)),
    "json-stat": lambda one: one.rows * (one.others + CELL * one.columns),
    "px": lambda one: one.combinations * (one.others + CELL * one.columns),
    "sdmx-csv": lambda one: one.rows * (one.others + one.columns * (LINKS + one.keys)),
    "mbi": lambda one: one.rows * 8 * one.columns,
}
"""For each format with rows, a function that returns the bytes of the rows of a table."""

WITHOUT_ROWS = frozenset({"report", "datapackage", "dcat", "registry", "dp-event"})
"""Formats whose size does not grow with rows. Formats in neither list count as workbooks."""


WORKBOOKS = frozenset({"excel", "ods"})
"""Formats with one file for each language."""


def max_bytes(names: Iterable[str], metadata: Metadata) -> int:
    """Return the maximum bytes of the formats; tables of unknown size are left out."""
    tables = [_table_size(table) for table in metadata.tables]
    described = ONCE + len(metadata.languages) * sum(map(_metadata_bytes, metadata.tables))
    total = 0
    for name in names:
        copies = len(metadata.languages) if name in WORKBOOKS else 1  # one workbook per language
        total += copies * (described + PAGE * (name == "report"))
        if name not in WITHOUT_ROWS:
            bytes_of = TABLES.get(name, TABLES["excel"])
            total += copies * sum(map(bytes_of, tables))
    return total


def _table_size(table: TableMetadata) -> _Size:
    others = [column for column in table.columns if column.role != Role.KEY]
    row = sum(map(_field_bytes, table.columns))
    keys = _escaped_row_bytes(table.keys)
    values = _escaped_row_bytes(others)
    cells = max_cells(table) or 0
    return _Size(max_rows(table) or 0, cells // len(table.columns), len(others), row, keys, values)


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


MOST_ROWS, LEAST_ROWS = 256, 4
"""Maximum rows of a blank table, and minimum rows of each table if there are very many."""

ALL_ROWS = 1 << 12
"""Maximum rows of all blank tables together, unless each table has the minimum."""

BLANK_DIGEST = "0" * 64
"""Placeholder in the manifest for the digest of a file."""

LARGEST_NUMBER = 2**63 - 1
"""The largest number of a blank table, before multiplication by a step."""

NONNEGATIVE_ROLES = (Role.MARGIN, Role.STANDARD_ERROR)
"""Roles of columns that are never below 0."""

SAMPLE_TEXTS = ("", "a", 'a "b", c', " é\n", "=1+1", "-1", "\U0001f600")
"""Texts for columns without declared values; texts that a file format can't hold are not tried."""


def blank_release(record: GuaranteedManifest, metadata: Metadata, folder: Path) -> PublishedRelease:
    """Write a release of blank tables into a folder, and return it.

    - `record`: the manifest of such a release; digests and numbers of rows are filled in here.
    - `metadata`: the metadata of the release. Tables without all cells get their number of rows.
    - `folder`: an empty folder.

    Raises OSError if the files can't be written.
    """
    published = PublishedRelease(folder, record, metadata)
    most = max(LEAST_ROWS, min(MOST_ROWS, ALL_ROWS // max(1, len(metadata.tables))))
    tables, rows = [], {}
    for table in metadata.tables:
        blank = _blank_table(table, suppressed_columns(published, table), most)
        (folder / table.file).parent.mkdir(parents=True, exist_ok=True)
        rows[table.file] = write_table(blank, folder / table.file)
        # A number of rows that is not known before the run must not be known in the trial, either.
        known = None if table.rows is None else rows[table.file]
        tables.append(replace(table, rows=known))
    files = [
        file.model_copy(
            update={"rows": rows.get(file.name, 0), "sha256": BLANK_DIGEST, "parts": []}
        )
        for file in record.files
    ]
    blank_record = record.model_copy(update={"files": files})
    written = {PARQUET: [file.name for file in files]}
    return PublishedRelease(folder, blank_record, replace(metadata, tables=tuple(tables)), written)


def _blank_table(table: TableMetadata, emptied: set[str], most: int) -> pa.Table:
    """Return a table of at most `most` rows, with keys as declared, and values from no data.

    `emptied`: the columns whose small values are published as missing.
    """
    import pyarrow as pa

    arrays = _blank_keys(table, most)
    number = len(next(iter(arrays.values()))) if arrays else (1 if table.rows == 1 else most)
    for column in table.columns:
        if column.role != Role.KEY:
            missing = column.kind == "double" or {column.name, column.of} & emptied
            values = _blank_values(column, missing=bool(missing))
            cells = [values[i % len(values)] for i in range(number)]
            arrays[column.name] = _arrow_array(cells, column.kind)
    names = [column.name for column in table.columns]
    return pa.table([arrays[name] for name in names], names=names)


def _blank_keys(table: TableMetadata, most: int) -> dict[str, pa.Array]:
    """Return the keys of some cells in order; keys without declared values are unique."""
    lists = [_declared_values(key) for key in table.keys]
    total = math.prod(map(len, lists))
    number = min(total, most)
    # Spread from the first cell to the last one, whose codes may be the longest.
    cells = [i * (total - 1) // max(1, number - 1) for i in range(number)]  # as long as allowed
    arrays, stride = {}, total
    for key, codes in zip(table.keys, lists, strict=True):
        stride //= len(codes)
        taken = [codes[cell // stride % len(codes)] for cell in cells]
        arrays[key.name] = _arrow_array(taken, key.kind)
    return arrays


def _declared_values(key: ColumnMetadata) -> Sequence[Code]:
    """Return the declared values of a key, or sample values if none are declared."""
    return _blank_values(key, missing=False) if key.codes is None else key.codes.values


def _blank_values(column: ColumnMetadata, *, missing: bool) -> list[Any]:
    """Return values that a column may have: zero, large values, small values, a missing value."""
    kind = column.kind
    values: list[Any]
    if column.codes is not None:
        codes = column.codes.values
        values = [codes[0], codes[-1]]
    elif kind == "bool":
        values = [False, True]
    elif kind.startswith("date"):
        values = [date(1970, 1, 1), date.min, date.max]
    elif kind.startswith("timestamp"):
        values = [datetime(1970, 1, 1), datetime.min, datetime.max.replace(microsecond=0)]
    elif kind.startswith(("int", "decimal", "double")):
        values = _extreme_numbers(column)
    else:
        values = list(SAMPLE_TEXTS)
    return [*values, None] if missing else values


def _extreme_numbers(column: ColumnMetadata) -> list[Any]:
    """Return the numbers of a column: the extremes of noise that its file type can hold."""
    kind = column.kind
    if kind == "double":
        values: list[Any] = [0.0, 1 / 3, 1e15, -1e15]
    elif kind.startswith("int"):
        wide = 2**31 - 1 if kind == "int32" else LARGEST_NUMBER
        values = [0, 1, wide, -wide]
    else:
        decimals = int(kind.rstrip(")").rpartition(",")[2])
        values = [
            Decimal(number).scaleb(-decimals) for number in (0, 1, LARGEST_NUMBER, -LARGEST_NUMBER)
        ]
    return values[:-1] if column.role in NONNEGATIVE_ROLES else values


def _arrow_array(values: Sequence[Any], kind: str) -> pa.Array:
    """Return values as an Arrow array of a type that is named by a text."""
    import pyarrow as pa

    if kind.startswith("decimal"):
        width, decimals = kind.partition("(")[2].rstrip(")").split(",")
        return pa.array(values, pa.decimal128(int(width), int(decimals)))
    if kind.startswith("timestamp"):
        return pa.array(values, pa.timestamp("us"))
    return pa.array(values, pa.type_for_alias(kind.partition("[")[0]))


def try_formats(
    names: Sequence[str],
    record: GuaranteedManifest,
    metadata: Metadata,
    place: Place,
    folder: Path | None = None,
) -> None:
    """Write the formats of blank tables, then delete all files.

    - `record`: the manifest that the release would have, without the entries of formats and its
      digest.
    - `place`: the position of `formats` in the declaration.
    - `folder`: the folder for temporary files; by default that of the system.

    Raises DeclarationError: DP-EXPORT-008 for the first format that fails. Raises OSError if the
    system can't write the files.
    """
    with temporary_folder(".dprelease-trial-", folder) as private:
        release = blank_release(record, metadata, private)
        write_formats(names, release, private, trial=place)
