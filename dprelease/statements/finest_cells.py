"""The finest cells of a family of tables, added up once, and each table from these.

A table of such a family by itself is one statement as any other; this takes it in two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.resolve import Query
from dprelease.statements.coarser import FINEST, LEVEL, coarser
from dprelease.statements.compiled import Compiled, KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import grouped_as_stored


@dataclass(frozen=True, slots=True)
class FinestCells:
    """The SELECT of the finest cells and their sums, over `dp_source` or rows bounded elsewhere.

    `unbounded`: the SELECT of all rows with ids, for whoever bounds them; empty without one.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    unbounded: str = ""


class _Finest(Compiler):
    def of_level(self, level: KeySpace) -> str:
        """Return a SELECT of the cells of a level and their sums, as those of the finest are."""
        cell, joins = coarser(self.query.finest or level, level, self._key_table)
        sums = ", ".join(f"sum(a{j}) AS a{j}" for j in range(len(self.vectors)))
        return f"SELECT {cell} AS cell, {sums}\nFROM {FINEST}{joins} GROUP BY 1"

    def cells(self) -> FinestCells:
        """Return the statement of the finest cells."""
        by_rows = self.query.unit.id is not None
        as_stored = frozenset() if by_rows else grouped_as_stored(self.query)
        *before, (_, finest), _ = self._row_by_row() if by_rows else self._grouped_first()
        sql = self._statement([*before, ("", finest)], as_stored)
        return FinestCells(sql, tuple(self.key_tables), self.unbounded)


def compile_finest(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> FinestCells:
    """Return the statement of the finest cells, the same for every table of the family.

    `bounded`: over `dp_kept`, rows that were bounded outside of the engine.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _Finest(query, physical, joined or {}, bounded=bounded).cells()


def compile_level(query: Query, physical: Mapping[str, str], level: KeySpace) -> FinestCells:
    """Return the statement of a level's cells over the finest cells of a family."""
    compiler = _Finest(query, physical, {})
    return FinestCells(compiler.of_level(level), tuple(compiler.key_tables))


def compile_of_finest(
    query: Query, physical: Mapping[str, str], level: KeySpace | None = None
) -> Compiled:
    """Return the statement of a table over the finest cells of its family, or over a level's."""
    if query.finest is None:
        raise TypeError("only tables of a family have finest cells")
    compiler = Compiler(query, physical, {})
    sql = compiler.of_finest(query.finest) if level is None else compiler.of_finest(level, LEVEL)
    names = tuple(measurement.name for measurement in compiler.vectors)
    return Compiled(sql, tuple(compiler.key_tables), names, {})
