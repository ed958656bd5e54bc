"""The finest cells of a family of tables, added up once, and each table from these.

A table of such a family by itself is one statement as any other; this takes it in two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.resolve import Query
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


def compile_of_finest(query: Query, physical: Mapping[str, str]) -> Compiled:
    """Return the statement of a table over the finest cells of its family."""
    if query.finest is None:
        raise TypeError("only tables of a family have finest cells")
    compiler = Compiler(query, physical, {})
    sql = compiler.of_finest(query.finest)
    names = tuple(measurement.name for measurement in compiler.vectors)
    return Compiled(sql, tuple(compiler.key_tables), names, {})
