"""Sum the finest cells of a family of consistent tables once, and each table from these sums.

The finest cells are those of which all tables of the family are sums. Rows are read once for all
tables of the family, and contributions are limited once, by the finest cells. So every table is a
sum over the same rows. The finest cells of one family are held at a time.

`FinestTables` holds them in a table of the engine. An engine that groups rows holds the sums of all
occurring cells at once; if these sums exceed its memory, the engine spills them to disk, or fails.
So `SortedFamilies` sums families with very many finest cells outside of the engine, by ranges of
cells: the engine only computes the cell of each row, and holds only the codes of the keys. Which of
the two sums a family depends only on its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.arrow_numbers import to_numpy
from dprelease.exact.results.true_table import Integers, VectorBlock
from dprelease.exact.results.vectors import LARGE_BATCH_ROWS, MOST_ROWS, fetch_batches, most_added
from dprelease.exact.table_reader import Attempt
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.resolve import Query
from dprelease.statements.coarser import FINEST_RELATION, LEVEL_RELATION, level_above
from dprelease.statements.compiled_queries import (
    FinestRows,
    compile_finest,
    compile_finest_rows,
    compile_level,
    compile_of_finest,
)
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable

if TYPE_CHECKING:
    import duckdb

    from dprelease.exact.results.sorted_cells import Rows, SortedCells


@dataclass
class FinestTables:
    """The finest cells of the current family, which are summed when its first table is read.

    Four fields are functions of the engine. `attempt`: does work on the connection. `register`:
    creates tables of keys. `bound`: creates the table of the rows kept after contribution limits,
    and returns False if these rows do not fit in memory. `forget`: drops the table of kept rows.
    """

    attempt: Attempt
    register: Callable[[Iterable[KeyTable]], None]
    bound: Callable[[str, PrivacyUnit, int], bool]
    forget: Callable[[], None]
    _made: tuple[KeySpace | None, PrivacyUnit | None, list[Aggregate]] | None = None
    """The current family: its key space, and the contribution limits and aggregates for which the
    finest cells were summed. The key space itself is held, because its `id()` could be reused."""
    _level: tuple[str, ...] | None = None
    """The key columns of the level whose cells the engine holds."""

    def prepare_statements(self, query: Query, physical: Types, joined: Types) -> CompiledQuery:
        """Return the statements of one table; sum the finest cells first if the engine lacks them.

        `physical`: the engine's types of the stored columns of the query's table. `joined`: the
        types of the stored columns of the joined table.

        Raises DataError if a statement can't be compiled for these types, or fails in the engine.
        """
        aggregates = [m.aggregate for m in query.measurements]
        held, unit, added = self._made or (None, None, [])
        if held is not query.finest or unit != query.unit or added != aggregates:
            # Forgotten before the sums are replaced: if summing fails, no later table may take what
            # is left for its own cells.
            self._made, self._level = None, None
            self._sum_finest_cells(query, physical, joined)
            self._made = query.finest, query.unit, aggregates
        level = level_above(query.finest or query.keys, query.keys)
        if level is not None:
            self._sum_to_level(query, physical, level)
        return compile_of_finest(query, physical, level)

    def _sum_to_level(self, query: Query, physical: Types, level: KeySpace) -> None:
        """Sum the finest cells to the cells of a level, unless the engine holds that level."""
        name = tuple(key.column for key in level.keys)
        if self._level == name:
            return
        # As above: a level that was not summed to its end must not be used.
        self._level = None
        cells = compile_level(query, physical, level)
        self.register(cells.key_tables)
        sql = f"CREATE OR REPLACE TEMP TABLE {LEVEL_RELATION} AS {cells.sql}"
        self.attempt(lambda link: link.execute(sql))
        self._level = name

    def drop_shared_data(self) -> None:
        """Drop the finest cells, if there are any."""
        if self._made is not None:
            self._made, self._level = None, None
            drop = "; ".join(
                f"DROP TABLE IF EXISTS {name}" for name in (LEVEL_RELATION, FINEST_RELATION)
            )
            self.attempt(lambda link: link.execute(drop))

    def _sum_finest_cells(self, query: Query, physical: Types, joined: Types) -> None:
        """Read all rows, limit contributions, and sum the finest cells."""
        unit, space = query.unit, query.finest or query.keys
        cells = compile_finest(query, physical, joined)
        self.register(cells.key_tables)
        if unit.id is not None:
            self.forget()  # leftovers of a query that failed
            bounded_cells = compile_finest(query, physical, joined, bounded=True)
            if self.bound(bounded_cells.all_rows_sql, unit, space.size):
                cells = bounded_cells
        sql = f"CREATE OR REPLACE TEMP TABLE {FINEST_RELATION} AS {cells.sql}"
        self.attempt(lambda link: link.execute(sql))
        if unit.id is not None:
            self.forget()


LEAST_CELLS = 1 << 24
"""Minimum number of finest cells for this module; an engine groups fewer cells faster."""

Types = Mapping[str, str]


def is_summed_by_ranges(query: Query) -> bool:
    """Return whether this module sums the family of a query, which depends only on declarations."""
    return (
        query.finest is not None
        and query.finest.size >= LEAST_CELLS
        and all(m.is_vector and not m.aggregate.is_distinct for m in query.measurements)
        and max(map(most_added, query.measurements)) < 2**62 // MOST_ROWS
    )


@dataclass
class SortedFamilies:
    """The sorted finest cells of a family, and the cells of one level above them.

    Each table is a sum of these cells. `scratch`: the private folder of the engine. For the other
    fields see `FinestTables`.
    """

    attempt: Attempt
    register: Callable[[Iterable[KeyTable]], None]
    bound: Callable[[str, PrivacyUnit, int], bool]
    forget: Callable[[], None]
    scratch: Path
    _made: tuple[KeySpace | None, PrivacyUnit | None, list[Aggregate]] | None = None
    """The finest keys, the privacy unit and the aggregates of the current family."""
    _finest: SortedCells | None = None
    """The finest cells of the current family; None if the family has too many rows."""
    _level: tuple[KeySpace, SortedCells] | None = None
    """The level whose cells are held, and these cells."""

    def vectors(
        self, query: Query, physical: Types, joined: Types
    ) -> dict[str, VectorBlock] | None:
        """Return the vectors of one table by name; None if the engine must sum them.

        Raises DataError if a statement can't be compiled, or fails in the engine.
        """
        if not is_summed_by_ranges(query):
            return None
        aggregates = [m.aggregate for m in query.measurements]
        held, unit, added = self._made or (None, None, [])
        if held is not query.finest or unit != query.unit or added != aggregates:
            self.drop_shared_data()
            self._finest = self._read_finest_cells(query, physical, joined)
            self._made = query.finest, query.unit, aggregates
        if self._finest is None:
            return None
        space, cells = query.finest or query.keys, self._finest
        level = level_above(space, query.keys)
        if level is not None:
            if self._level is None or self._level[0] != level:
                # Released first, so that the files of two levels are never on the disk together.
                self._level = None
                self._level = level, self._sum_to_coarser_cells(space, level, cells)
            space, cells = self._level
        if query.keys != space:
            cells = self._sum_to_coarser_cells(space, query.keys, cells)
        return dict(cells.vectors([m.name for m in query.measurements]))

    def drop_shared_data(self) -> None:
        """Drop all cells; a file of cells is removed when no table uses it any more."""
        self._made, self._finest, self._level = None, None, None

    def _read_finest_cells(
        self, query: Query, physical: Types, joined: Types
    ) -> SortedCells | None:
        """Return the finest cells of all kept rows; None if there are too many rows."""
        space = query.finest or query.keys
        rows = compile_finest_rows(query, physical, joined)
        self.register(rows.key_tables)
        if query.unit.id is not None:
            self.forget()  # leftovers of a query that failed
            bounded_rows = compile_finest_rows(query, physical, joined, bounded=True)
            if self.bound(bounded_rows.all_rows_sql, query.unit, space.size):
                rows = bounded_rows
        found = self.attempt(lambda link: _sum_rows_by_cell(link, rows, space.size, self.scratch))
        if query.unit.id is not None:
            self.forget()
        return found

    def _sum_to_coarser_cells(
        self, finer: KeySpace, keys: KeySpace, cells: SortedCells
    ) -> SortedCells:
        """Return the cells of `keys`, each a sum of the cells of `finer` that it contains."""
        from dprelease.exact.results.sorted_cells import sorted_cells

        containing_cells = _map_to_containing_cells(finer, keys)

        def rows() -> Iterator[Rows]:
            """Yield the coarser cell of each cell, with the sums, in pieces."""
            for some, sums in cells.pieces():
                yield containing_cells(some), sums

        return self.attempt(
            lambda _link: sorted_cells(rows(), keys.size, cells.number, self.scratch)
        )


def _sum_rows_by_cell(
    link: duckdb.DuckDBPyConnection, rows: FinestRows, size: int, scratch: Path
) -> SortedCells | None:
    """Return the sums of rows by cell; None if there are so many rows that sums might overflow."""
    from dprelease.exact.results.sorted_cells import TooManyRows, sorted_cells

    def read() -> Iterator[Rows]:
        """Yield the cells and what each row adds (None: one for each row), in batches."""
        for batch in fetch_batches(link, rows.sql, 1 + len(rows.ones), LARGE_BATCH_ROWS):
            cells, *added = batch.columns
            yield (
                to_numpy(cells),
                [
                    None if one else to_numpy(column)
                    for one, column in zip(rows.ones, added, strict=True)
                ],
            )

    for name, sql in rows.stored:
        link.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    try:
        return sorted_cells(read(), size, len(rows.ones), scratch)
    except TooManyRows:
        return None
    finally:
        for name, _ in rows.stored:
            link.execute(f"DROP TABLE {name}")


def _map_to_containing_cells(finer: KeySpace, keys: KeySpace) -> Callable[[Integers], Integers]:
    """Return a function from cells of `finer` to the cells of `keys` that contain them."""
    places = {
        key.column: (stride, key.size)
        for key, stride in zip(finer.keys, finer.strides, strict=True)
    }
    parts = []
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        is_there = key.column in places
        step, size = places[key.column if is_there else key.read_from]
        parts.append((step, size, stride, None if is_there else key.ancestors.numbers))

    def containing_cells(cells: Integers) -> Integers:
        """Return the coarser cell that contains each cell."""
        found = np.zeros(len(cells), np.int64)
        for step, size, stride, areas in parts:
            code = cells // step % size
            found += (code if areas is None else areas[code]) * stride
        return found

    return containing_cells
