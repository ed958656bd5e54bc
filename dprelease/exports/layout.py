"""Define the rows and columns of tables in text files and sheets: long, or pivoted by a key.

A table is pivoted by a key only if it has a row for every combination of declared values, so that
no cell of the wide table is empty because of a missing row. The totals over that key are in the
first columns if the same query publishes them as a table. They are never computed from cells,
because the noise of the cells would add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.limit_labels import companion_word
from dprelease.documents.metadata import (
    Code,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
    code_text,
)
from dprelease.errors.suggestions import nearest
from dprelease.exports.export import PublishedRelease

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1 << 18
"""Rows of a long table that are pivoted at once; a larger block is pivoted as a whole."""


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """A column of a laid out table, in a text file or a sheet.

    `code`: the value of the pivoted key to whose cells the column belongs. `total`: whether the
    column has the totals over that key.
    """

    name: str
    metadata: ColumnMetadata
    code: Code | None = None
    total: bool = False

    def title(self, pivot_key: ColumnMetadata | None, language: str) -> str:
        """Return the head of the column for people; `pivot_key`: the key that columns are for."""
        title = self.metadata.title(language)
        if self.total:
            return f"{title}: {companion_word('total', language)}"
        if self.code is None or pivot_key is None or pivot_key.codes is None:
            return title
        return f"{title}: {pivot_key.codes.label(self.code, language)}"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The rows and columns of a table in a text file or a sheet.

    `pivot_key`: the key whose values are columns; None for a long table.
    """

    table: TableMetadata
    columns: tuple[LayoutColumn, ...]
    pivot_key: ColumnMetadata | None = None
    totals: TableMetadata | None = None

    @property
    def keys(self) -> tuple[LayoutColumn, ...]:
        """Return the keys that are columns."""
        return tuple(column for column in self.columns if column.metadata.role == Role.KEY)

    @property
    def row_count(self) -> int | None:
        """Return the number of rows; None if it is not known yet."""
        if self.table.rows is None or self.pivot_key is None:
            return self.table.rows
        return self.table.rows // number_of_values(self.pivot_key)

    def batches(self, release: PublishedRelease) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the layout in order, with the columns of `columns`."""
        if self.pivot_key is None:
            names = [column.metadata.name for column in self.columns]
            yield from release.batches(self.table, names)
            return
        yield from _pivot_blocks(self, self.pivot_key, release)


def layout_of(table: TableMetadata, metadata: Metadata) -> TableLayout:
    """Return the layout of a table, pivoted by the first possible key of `metadata.wide`."""
    for name in metadata.wide:
        key = next((key for key in table.keys if key.name == name), None)
        if key is not None and has_all_rows(table) and len(table.keys) > 1 and table.values:
            return pivoted_layout(table, key, metadata)
    return long_layout(table)


def long_layout(table: TableMetadata) -> TableLayout:
    """Return the layout of a table that is not pivoted."""
    return TableLayout(table, tuple(LayoutColumn(column.name, column) for column in table.columns))


def pivoted_layout(table: TableMetadata, key: ColumnMetadata, metadata: Metadata) -> TableLayout:
    """Return the layout of a table with all rows, pivoted by one of its keys."""
    totals = _totals_table(table, key, metadata)
    return TableLayout(table, tuple(_wide_columns(table, key, totals)), key, totals)


def refused_wide_keys(metadata: Metadata) -> Iterator[tuple[str, str]]:
    """Yield the keys of `metadata.wide` by which no table can be pivoted, each with the reason."""
    pivot_key = [layout_of(table, metadata).pivot_key for table in metadata.tables_for_readers]
    # A wide key is fine if it is used for at least one table.
    names = {key.name for key in pivot_key if key is not None}
    keys = dict.fromkeys(key.name for table in metadata.tables_for_readers for key in table.keys)
    for name in metadata.wide:
        if name not in keys:
            yield name, f"no table has such a key{nearest(name, keys)}"
        elif name not in names:
            yield name, "every table by it has no other key, or lacks rows, or is already wide"


def is_records(table: TableMetadata) -> bool:
    """Return whether the rows of a table are records, such as synthetic persons without keys."""
    return not table.keys and table.rows != 1


def number_of_values(key: ColumnMetadata) -> int:
    """Return the number of declared values of a key."""
    return 0 if key.codes is None else len(key.codes.values)


def max_rows(table: TableMetadata) -> int | None:
    """Return the maximum number of rows of a table of cells; None if it is not known yet."""
    if table.rows is not None:
        return table.rows
    known = all(key.codes is not None for key in table.keys) and not is_records(table)
    return math.prod(map(number_of_values, table.keys)) if known else None


def has_all_rows(table: TableMetadata) -> bool:
    """Return whether a table is known in advance to have a row for every combination of values."""
    declared = all(key.codes is not None for key in table.keys)
    return declared and table.rows == math.prod(map(number_of_values, table.keys))


def _totals_table(
    table: TableMetadata, key: ColumnMetadata, metadata: Metadata
) -> TableMetadata | None:
    """Return the published table of totals over a key, with all other keys in the same order."""
    others = [(one.name, one.codes) for one in table.keys if one is not key]
    for other in metadata.tables_for_readers:
        same = other.query == table.query and _folder_name(other) == _folder_name(table)
        if same and [(one.name, one.codes) for one in other.keys] == others and has_all_rows(other):
            return other
    return None


def _folder_name(table: TableMetadata) -> str:
    """Return the folder in the name of a table; empty if the name has none."""
    return table.name.rpartition("/")[0]


def _wide_columns(
    table: TableMetadata, key: ColumnMetadata, totals: TableMetadata | None
) -> Iterator[LayoutColumn]:
    """Yield the columns of a wide table: keys, totals, and a column for each value."""
    yield from (LayoutColumn(one.name, one) for one in table.keys if one is not key)
    rest = [column for column in table.columns if column.role != Role.KEY]
    there = {} if totals is None else {column.name: column.kind for column in totals.columns}
    for one in rest:
        if there.get(one.name) == one.kind:
            yield LayoutColumn(one.name, one, total=True)
    for code in key.codes.values if key.codes else ():
        # Column names contain no dot, so these names are unique.
        yield from (LayoutColumn(f"{one.name}.{code_text(code)}", one, code) for one in rest)


def _pivot_blocks(
    layout: TableLayout, key: ColumnMetadata, release: PublishedRelease
) -> Iterator[pa.RecordBatch]:
    """Yield a wide table; each batch is pivoted from some complete blocks of the long table.

    A block consists of the rows in which no key before the pivoted key changes: for each value of
    the pivoted key, the rows of all keys after it.
    """
    import pyarrow as pa

    keys = layout.table.keys
    place, values = keys.index(key), number_of_values(key)
    inner = math.prod(number_of_values(other) for other in keys[place + 1 :])
    # A block has all rows of one combination of the keys before the pivot key.
    blocks = max(1, ROWS // (values * inner))
    names = [column.name for column in layout.table.columns]
    long = equal_batches(release.batches(layout.table, names), blocks * values * inner)
    totals = _total_rows(layout, release, blocks * inner)
    codes = {code: i for i, code in enumerate(key.codes.values if key.codes else ())}
    for rows in long:
        # The rows are in the order of the keys, so the key's value follows from the place of a row.
        spots = np.arange(rows.num_rows).reshape(-1, values, inner)
        each = [rows.take(pa.array(spots[:, i].ravel())) for i in range(values)]
        added = next(totals, None)
        arrays = []
        for column in layout.columns:
            at = each[0] if column.code is None else each[codes[column.code]]
            if column.total and added is not None:
                at = added
            arrays.append(at.column(column.metadata.name))
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in layout.columns])


def _total_rows(
    layout: TableLayout, release: PublishedRelease, size: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the totals in batches; nothing if there is no table of totals."""
    if layout.totals is not None:
        yield from equal_batches(release.batches(layout.totals), size)


def equal_batches(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of `size` rows; the last batch may be smaller."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        left = batch
        while left.num_rows:
            held.append(left.slice(0, size - rows))
            left = left.slice(held[-1].num_rows)
            rows += held[-1].num_rows
            if rows == size:
                yield pa.concat_batches(held)
                held, rows = [], 0
    if held:
        yield pa.concat_batches(held)
