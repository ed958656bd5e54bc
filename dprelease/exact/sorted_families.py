"""Families of very many finest cells: summed range after range, outside of the engine.

An engine that groups rows holds a number and a sum for each occurring cell; if these exceed its
memory, it spills or fails. Here it only computes the cell of each row, and holds only the codes of
the keys. The declared cells alone decide which families are handled so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.arrow_numbers import numbers_of
from dprelease.exact.results.true_table import Integers, VectorBlock
from dprelease.exact.results.vectors import LARGE, MOST_ROWS, batches, most_added
from dprelease.exact.table_reader import Attempt
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.resolve import Query
from dprelease.statements.coarser import level_above
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.finest_cells import FinestRows, compile_finest_rows

if TYPE_CHECKING:
    import duckdb

    from dprelease.exact.results.sorted_cells import Rows, SortedCells

MANY = 1 << 24
"""Number of finest cells from which on they are summed here: engines group fewer faster."""

Types = Mapping[str, str]


def by_ranges(query: Query) -> bool:
    """Return whether a table belongs to a family that is summed here: the declaration decides."""
    return (
        query.finest is not None
        and query.finest.size >= MANY
        and all(m.is_vector and not m.aggregate.is_distinct for m in query.measurements)
        and max(map(most_added, query.measurements)) < 2**62 // MOST_ROWS
    )


@dataclass
class SortedFamilies:
    """The finest cells of a family, sorted, and those of a level: its tables are sums of these.

    Parameters as in `FinestTables`; `scratch`: the folder of the engine.
    """

    attempt: Attempt
    register: Callable[[Iterable[KeyTable]], None]
    bound: Callable[[str, PrivacyUnit, int], bool]
    forget: Callable[[], None]
    scratch: Path
    _made: tuple[KeySpace | None, PrivacyUnit | None, list[Aggregate]] | None = None
    """The current family, as in `FinestTables`."""
    _finest: SortedCells | None = None
    """Its cells; None if it has too many rows."""
    _level: tuple[KeySpace, SortedCells] | None = None
    """The level whose cells are held."""

    def vectors(
        self, query: Query, physical: Types, joined: Types
    ) -> dict[str, VectorBlock] | None:
        """Return the vectors of one table by name; None if the engine must sum them.

        Raises
        ------
        DataError
            As the statements, and as `attempt`.
        """
        if not by_ranges(query):
            return None
        aggregates = [m.aggregate for m in query.measurements]
        held, unit, added = self._made or (None, None, [])
        if held is not query.finest or unit != query.unit or added != aggregates:
            self.let_go()
            self._finest = self._read(query, physical, joined)
            self._made = query.finest, query.unit, aggregates
        if self._finest is None:
            return None
        space, cells = query.finest or query.keys, self._finest
        level = level_above(space, query.keys)
        if level is not None:
            if self._level is None or self._level[0] != level:
                self._level = None
                self._level = level, self._coarser(space, level, cells)
            space, cells = self._level
        if query.keys != space:
            cells = self._coarser(space, query.keys, cells)
        return dict(cells.vectors([m.name for m in query.measurements]))

    def let_go(self) -> None:
        """Drop all cells; cells of tables that are still in use go with these."""
        self._made, self._finest, self._level = None, None, None

    def _read(self, query: Query, physical: Types, joined: Types) -> SortedCells | None:
        """Return the finest cells of all rows that count."""
        space = query.finest or query.keys
        rows = compile_finest_rows(query, physical, joined)
        self.register(rows.key_tables)
        if query.unit.id is not None:
            self.forget()  # leftovers of a query that failed
            held = compile_finest_rows(query, physical, joined, bounded=True)
            if self.bound(held.unbounded, query.unit, space.size):
                rows = held
        found = self.attempt(lambda link: _added_up(link, rows, space.size, self.scratch))
        if query.unit.id is not None:
            self.forget()
        return found

    def _coarser(self, finer: KeySpace, keys: KeySpace, cells: SortedCells) -> SortedCells:
        """Return the cells of a table that contain finer ones."""
        from dprelease.exact.results.sorted_cells import sorted_cells

        lies = _lies(finer, keys)

        def rows() -> Iterator[Rows]:
            for some, sums in cells.pieces():
                yield lies(some), sums

        return self.attempt(
            lambda _link: sorted_cells(rows(), keys.size, cells.number, self.scratch)
        )


def _added_up(
    link: duckdb.DuckDBPyConnection, rows: FinestRows, size: int, scratch: Path
) -> SortedCells | None:
    from dprelease.exact.results.sorted_cells import TooManyRows, sorted_cells

    def read() -> Iterator[Rows]:
        for batch in batches(link, rows.sql, 1 + len(rows.ones), LARGE):
            cells, *added = batch.columns
            yield (
                numbers_of(cells),
                [
                    None if one else numbers_of(column)
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


def _lies(finer: KeySpace, keys: KeySpace) -> Callable[[Integers], Integers]:
    """Return a function from finer cells to the cells of a table that contain them."""
    places = {
        key.column: (stride, key.size)
        for key, stride in zip(finer.keys, finer.strides, strict=True)
    }
    parts = []
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        is_there = key.column in places
        step, size = places[key.column if is_there else key.read_from]
        parts.append((step, size, stride, None if is_there else key.ancestors.numbers))

    def lies(cells: Integers) -> Integers:
        found = np.zeros(len(cells), np.int64)
        for step, size, stride, areas in parts:
            code = cells // step % size
            found += (code if areas is None else areas[code]) * stride
        return found

    return lies
