"""The finest cells of a family of tables, summed once, and each table computed from them.

A single table of such a family is one statement like any other; here there are two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.resolve import Query
from dprelease.statements.coarser import FINEST, LEVEL, coarser
from dprelease.statements.compiled_statements import Compiled, KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import grouped_as_stored
from dprelease.statements.meanings import typed_value


@dataclass(frozen=True, slots=True)
class FinestCells:
    """The SELECT of the finest cells and their sums, over `dp_source` or rows bounded elsewhere.

    `unbounded`: the SELECT of all rows with ids, for bounding elsewhere; empty if not needed.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    unbounded: str = ""


@dataclass(frozen=True, slots=True)
class FinestRows:
    """The SELECT of single rows: BIGINT `cell`, one above the last if none, then contributions.

    `stored`: tables that it reads, which must be made before, by name: the code of each stored
    value of a key (`stored`, `code`), so that each value is interpreted once. `ones`: for each
    vector, whether every row adds 1. `unbounded`: as in `FinestCells`.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    stored: tuple[tuple[str, str], ...]
    ones: tuple[bool, ...]
    unbounded: str = ""


class _Finest(Compiler):
    def of_level(self, level: KeySpace) -> str:
        """Return a SELECT of the cells of a level and their sums, in the form of finest ones."""
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


class _Rows(Compiler):
    """Statements in which stored values of a key are looked up, not interpreted, if possible."""

    def rows(self) -> FinestRows:
        """Return the statement of the rows that count, and of its look-up tables."""
        self._stored: dict[str, str] = {}
        by_rows = self.query.unit.id is not None
        self._as_stored = frozenset() if by_rows else grouped_as_stored(self.query)
        sql = self._by_row()
        ones = tuple(not (m.aggregate.reads_values or self._has_row_counts) for m in self.vectors)
        stored = tuple(self._stored.items())
        return FinestRows(sql, tuple(self.key_tables), stored, ones, self.unbounded)

    def _statement(
        self,
        steps_: list[tuple[str, str]],
        as_stored: frozenset[str] = frozenset(),
        present: str = "",
    ) -> str:
        return super()._statement(steps_, as_stored | self._as_stored, present)

    def _code(self, key: Key, raw: str, *, of_groups: bool = False) -> str:
        if key.column not in self._as_stored:
            return super()._code(key, raw, of_groups=of_groups)
        name = f"dp_stored_{len(self._stored)}"
        self._stored[name] = self._looked_up(key, raw)
        self.joins.append(f"LEFT JOIN {name} ON {raw} = {name}.stored")
        if key.nulls is None:
            return f"{name}.code"
        return f"CASE WHEN {raw} IS NULL THEN {key.nulls} ELSE {name}.code END"

    def _looked_up(self, key: Key, raw: str) -> str:
        """Return a SELECT of the stored values of a key with their codes."""
        rows, self.joins = self.joins, []
        kind, zone = self.physical[key.column], self.query.table.time_zone
        known = f"SELECT value FROM {self._own_table(key)}"
        meant = typed_value(key.column, self.columns[key.column], kind, zone, known, "stored")
        code = super()._code(key, "meant.value", of_groups=True)
        join, self.joins = " ".join(self.joins), rows
        steps = [
            ("there", f"SELECT DISTINCT {raw} AS stored FROM typed"),
            ("meant", f"SELECT stored, {meant} AS value FROM there WHERE stored IS NOT NULL"),
            ("", f"SELECT stored, {code} AS code FROM meant {join}"),
        ]
        return self._statement(steps)


def compile_finest_rows(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> FinestRows:
    """Return the statement of a family's rows, to be summed elsewhere; as `compile_finest`.

    No aggregate may be distinct.
    """
    return _Rows(query, physical, joined or {}, bounded=bounded).rows()


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
