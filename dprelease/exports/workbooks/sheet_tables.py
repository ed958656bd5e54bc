"""Collect the tables of each query on one sheet, where totals are rows next to their parts.

A query may declare several tables: its marginals, or the levels of a hierarchy. On their common
sheet, a table by fewer keys has no value in the other keys, which means the total over these keys.
Areas that contain other areas stand before the areas that they contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.documents.metadata import Code, ColumnMetadata, Metadata, Role, TableMetadata
from dprelease.exports.export import PublishedRelease
from dprelease.exports.layout import (
    LayoutColumn,
    TableLayout,
    has_all_rows,
    is_records,
    long_layout,
    max_rows,
    pivoted_layout,
)
from dprelease.postprocess.consistent.outputs import ESTIMATES

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_ROLES = (Role.VALUE, Role.QUALITY)
"""Roles of the first columns of each value; its other companions follow."""


@dataclass(frozen=True)
class SheetTable:
    """The rows and columns of one sheet.

    `layouts`: the tables of one query, the one with the most keys first. `hidden`: the names of
    columns that are not on the sheet.
    """

    layouts: tuple[TableLayout, ...]
    hidden: frozenset[str] = frozenset()

    @property
    def main(self) -> TableMetadata:
        """Return the table with the most keys, whose texts describe the sheet."""
        return self.layouts[0].table

    @property
    def tables(self) -> tuple[TableMetadata, ...]:
        """Return all published tables on the sheet."""
        pairs = ((layout.table, layout.totals) for layout in self.layouts)
        return tuple(table for pair in pairs for table in pair if table is not None)

    @property
    def from_few_keys(self) -> list[TableMetadata]:
        """Return all tables, those with the fewest keys first."""
        return sorted(self.tables, key=lambda table: len(table.keys))

    @property
    def pivot_key(self) -> ColumnMetadata | None:
        """Return the key whose values are columns; None for a long table."""
        return next((one.pivot_key for one in self.layouts if one.pivot_key), None)

    @property
    def has_totals(self) -> bool:
        """Return whether some rows or columns are totals."""
        return len(self.tables) > 1

    @cached_property
    def keys(self) -> tuple[ColumnMetadata, ...]:
        """Return the keys that are columns: levels of areas from the largest, then other keys."""
        found = {key.name: key.metadata for one in self.layouts for key in one.keys}
        return tuple(sorted(found.values(), key=lambda key: _level(key) or _AFTER_LEVELS))

    @cached_property
    def columns(self) -> tuple[LayoutColumn, ...]:
        """Return all other columns: totals first, each value followed by its companions."""
        pivoted = self.pivot_key is not None
        found: dict[str, LayoutColumn] = {}
        for layout in self.layouts:
            for column in layout.columns:
                if column.metadata.role == Role.KEY or column.name in self.hidden:
                    continue
                if column.name not in found:
                    total = pivoted and column.code is None
                    found[column.name] = LayoutColumn(
                        column.name, column.metadata, column.code, total
                    )
        return tuple(_in_reading_order(found.values()))

    def titles(self, name: str, language: str) -> dict[str, list[TableMetadata]]:
        """Return the titles of a column, each with its tables; their limits may differ."""
        found: dict[str, list[TableMetadata]] = {}
        for table in self.tables:
            for column in table.columns:
                if column.name == name:
                    found.setdefault(column.title(language), []).append(table)
        return found

    @property
    def column_count(self) -> int:
        """Return the number of columns on the sheet; a key with labels also has one of codes."""
        labelled = [key for key in self.keys if key.codes is not None and key.codes.labels]
        return len(self.keys) + len(labelled) + len(self.columns)

    @property
    def most_rows(self) -> int | None:
        """Return the largest possible number of rows; None if it is not known yet."""
        rows = [
            one.row_count if one.pivot_key is not None else max_rows(one.table)
            for one in self.layouts
        ]
        return None if None in rows else sum(row for row in rows if row is not None)

    def batches(self, release: PublishedRelease) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order: the keys, which are empty for totals, then the columns.

        A single table is read batch by batch. Several tables are in memory, as columns of Arrow.
        """
        names = [*(key.name for key in self.keys), *(column.name for column in self.columns)]
        if len(self.layouts) == 1:
            for batch in self.layouts[0].batches(release):
                yield batch.select(names)
            return
        yield from self._merge_tables(release).select(names).to_batches()

    def first_rows(self, batch: pa.RecordBatch) -> dict[str, int]:
        """Return the first row of each table in a batch, by name of the table.

        A row belongs to the table with the most keys that all have a value in this row.
        """
        left, found = np.ones(batch.num_rows, dtype=bool), dict[str, int]()
        for one in self.layouts:
            valid = [batch.column(key.name).is_valid() for key in one.keys]
            own = np.logical_and.reduce([left, *(mask.to_numpy(False) for mask in valid)])
            if own.any():
                found[one.table.name] = int(own.argmax())
            left &= ~own
        return found

    def _merge_tables(self, release: PublishedRelease) -> pa.Table:
        """Return the rows of all tables in the order of their keys, with the areas above areas."""
        import pyarrow as pa

        parts = [
            pa.Table.from_batches(batches)
            for one in self.layouts
            if (batches := list(one.batches(release)))
        ]
        rows = pa.concat_tables(parts, promote_options="permissive")
        values = [_values_of(key, rows) for key in self.keys]
        ranks = [
            _ranks(rows.column(key.name), own) for key, own in zip(self.keys, values, strict=True)
        ]
        placed = _with_areas_above(self.keys, ranks)
        for key, own, rank in zip(self.keys, values, placed, strict=True):
            at = rows.schema.get_field_index(key.name)
            rows = rows.set_column(at, key.name, own.take(pa.array(rank, mask=rank < 0)))
        return rows.take(pa.array(np.lexsort(placed[::-1]))) if placed else rows


def sheet_tables(metadata: Metadata, *, estimates: bool) -> list[SheetTable]:
    """Return the tables of each sheet of a workbook, in the order of the queries.

    `estimates`: the estimates of queries with integer tables, in place of the official figures.
    Measurements, and records of invented persons, are on no sheet.
    """
    read = [
        table for table in metadata.tables_for_readers if table.values and not is_records(table)
    ]
    official = {table.query for table in read if not _is_estimate(table)}
    queries: dict[str, list[TableMetadata]] = {}
    for table in read:
        if (_is_estimate(table) and table.query in official) == estimates:
            queries.setdefault(table.query, []).append(table)
    return [SheetTable(tuple(_layouts(tables, metadata))) for tables in queries.values()]


def without_unset_flags(sheet: SheetTable, release: PublishedRelease) -> SheetTable:
    """Return a sheet without columns of flags that are true in no row."""
    import pyarrow.compute as pc

    unset = {one.name for one in sheet.columns if one.metadata.role == Role.FLAG}
    for layout in sheet.layouts if unset else ():
        for batch in layout.batches(release):
            there = unset.intersection(batch.schema.names)
            unset -= {name for name in there if pc.any(batch.column(name)).as_py()}
    return replace(sheet, hidden=frozenset(unset))


def _is_estimate(table: TableMetadata) -> bool:
    """Return whether a table has the estimates of a family with a step."""
    return table.name.startswith(f"{ESTIMATES}/")


def _layouts(tables: Sequence[TableMetadata], metadata: Metadata) -> Iterator[TableLayout]:
    """Yield the layouts of the tables of one sheet, those with the most and deepest keys first.

    All tables with the key that becomes columns need all their rows. A table of totals that another
    layout has as columns has no layout.
    """
    ordered = sorted(tables, key=lambda one: (len(one.keys), *map(_level, one.keys)), reverse=True)
    names = dict.fromkeys(key.name for table in ordered for key in table.keys)
    for name in metadata.wide:
        by_key = [(table, _key_named(name, table)) for table in ordered]
        having = [table for table, key in by_key if key is not None]
        if having and len(names) > 1 and all(map(has_all_rows, having)):
            yield from _pivoted_layouts(by_key, metadata)
            return
    yield from map(long_layout, ordered)


def _pivoted_layouts(
    by_key: Sequence[tuple[TableMetadata, ColumnMetadata | None]], metadata: Metadata
) -> Iterator[TableLayout]:
    """Yield pivoted layouts of tables with a key, then the tables that are no totals of these."""
    added = set()
    for table, key in by_key:
        if key is not None:
            layout = pivoted_layout(table, key, metadata)
            yield layout
            added |= set() if layout.totals is None else {layout.totals.name}
    yield from (
        long_layout(table) for table, key in by_key if key is None and table.name not in added
    )


def _key_named(name: str, table: TableMetadata) -> ColumnMetadata | None:
    """Return the key of a table that has a name; None if there is no such key."""
    return next((key for key in table.keys if key.name == name), None)


_AFTER_LEVELS = 1 << 30
"""The place of keys that are no levels of areas, after all levels."""


def _level(key: ColumnMetadata) -> int:
    """Return the number of a level of areas; 0 for any other key."""
    return 0 if key.codes is None else key.codes.level


def _in_reading_order(columns: Iterable[LayoutColumn]) -> Iterator[LayoutColumn]:
    """Yield totals first; then each value, its quality, and its other companions."""
    groups: dict[tuple[object, str], list[LayoutColumn]] = {}
    for column in sorted(columns, key=lambda one: not one.total):
        groups.setdefault((column.code, column.metadata.of), []).append(column)
    for group in groups.values():
        yield from sorted(group, key=_place_in_group)


def _place_in_group(column: LayoutColumn) -> int:
    """Return the place of a column among the columns of its value."""
    role = column.metadata.role
    return FIRST_ROLES.index(role) if role in FIRST_ROLES else len(FIRST_ROLES)


def value_of(column: LayoutColumn) -> tuple[Code | None, bool, str]:
    """Return what identifies the value to which a column belongs."""
    return column.code, column.total, column.metadata.of


def _values_of(key: ColumnMetadata, rows: pa.Table) -> Any:
    """Return the values of a key in their order: as declared, or as in the rows."""
    import pyarrow as pa

    if key.codes is None:
        return rows.column(key.name).combine_chunks().unique().drop_null()
    return pa.array(list(key.codes.values), rows.schema.field(key.name).type)


def _ranks(column: Any, values: Any) -> Any:
    """Return the place of each value of a key in its order; -1 for a total."""
    import pyarrow.compute as pc

    places = pc.index_in(column, value_set=values)
    return pc.fill_null(places, -1).to_numpy().astype(np.int64)


def _with_areas_above(keys: Sequence[ColumnMetadata], ranks: Sequence[Any]) -> list[Any]:
    """Return the places of all keys, where each area has the areas that contain it."""
    placed = list(ranks)
    for i in range(len(keys) - 1, 0, -1):
        below, above = keys[i], keys[i - 1]
        if below.codes is not None and _level(below) > 1 and _level(above) == _level(below) - 1:
            parents = np.array([*below.codes.parents, -1])[placed[i]]  # of a total: a total
            placed[i - 1] = np.where(parents >= 0, parents, placed[i - 1])
    return placed
