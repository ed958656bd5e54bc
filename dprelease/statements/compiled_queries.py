"""Compile resolved queries to SQL, for stored types or for types that the declaration implies.

A query of a single table becomes one statement. A family of tables becomes one statement for its
finest cells, and one statement for each table, which sums these cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.resolve import Query
from dprelease.statements.bounding import Ctes
from dprelease.statements.coarser import FINEST_RELATION, LEVEL_RELATION, containing_cell_sql
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import assumed_joined_types, assumed_types, grouping_columns
from dprelease.statements.meanings import typed_value_sql


@dataclass(frozen=True, slots=True)
class FinestCells:
    """The SELECT of the finest cells and their sums.

    The SELECT reads `dp_source`, or rows whose contributions were limited outside of the engine. In
    the second case, `all_rows_sql` is the SELECT of all rows with an id, before the limits are
    applied; in the first case it is empty.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    all_rows_sql: str = ""


@dataclass(frozen=True, slots=True)
class FinestRows:
    """The SELECT of single rows of a family: the BIGINT `cell`, then the row's contributions.

    The cell of a row without a cell is one above the last. `stored` are the names and SELECTs of
    tables that must be created before: each holds the code of every stored value of a key (columns
    `stored` and `code`), so that each value is interpreted only once. `ones` says for each vector
    whether every row adds 1. `all_rows_sql` is the same as in `FinestCells`.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    stored: tuple[tuple[str, str], ...]
    ones: tuple[bool, ...]
    all_rows_sql: str = ""


class _FinestCellCompiler(Compiler):
    """Builds the statements of the finest cells of a family, and of the cells of a level."""

    def level_sql(self, level: KeySpace) -> str:
        """Return a SELECT of a level's cells and their sums, with the columns of `dp_finest`."""
        cell, joins = containing_cell_sql(self.query.finest or level, level, self._add_key_table)
        sums = ", ".join(f"sum(a{j}) AS a{j}" for j in range(len(self.vectors)))
        return f"SELECT {cell} AS cell, {sums}\nFROM {FINEST_RELATION}{joins} GROUP BY 1"

    def cells(self) -> FinestCells:
        """Return the statement of the finest cells."""
        by_rows = self.query.unit.id is not None
        as_stored = frozenset() if by_rows else grouping_columns(self.query)
        *before, (_, finest), _ = self._single_row_ctes() if by_rows else self._grouped_row_ctes()
        sql = self._statement_sql([*before, ("", finest)], as_stored)
        return FinestCells(sql, tuple(self.key_tables), self.all_rows_sql)


class _FinestRowCompiler(Compiler):
    """Builds the statement of a family's rows, which looks up stored key values where possible.

    The look-up replaces the conversion of each stored value to a declared value.
    """

    def rows(self) -> FinestRows:
        """Return the statement of the rows that count, with its look-up tables."""
        self._stored: dict[str, str] = {}
        by_rows = self.query.unit.id is not None
        self._as_stored = frozenset() if by_rows else grouping_columns(self.query)
        sql = self._contributions_sql()
        ones = tuple(not (m.aggregate.reads_values or self._has_row_counts) for m in self.vectors)
        stored = tuple(self._stored.items())
        return FinestRows(sql, tuple(self.key_tables), stored, ones, self.all_rows_sql)

    def _statement_sql(
        self, ctes: Ctes, as_stored: frozenset[str] = frozenset(), present: str = ""
    ) -> str:
        """Return the statement; key columns joined as stored are not converted."""
        return super()._statement_sql(ctes, as_stored | self._as_stored, present)

    def _code_sql(self, key: Key, raw: str, *, of_groups: bool = False) -> str:
        """Return the SQL of the code of a key, joined from a table of the stored values."""
        if key.column not in self._as_stored:
            return super()._code_sql(key, raw, of_groups=of_groups)
        name = f"dp_stored_{len(self._stored)}"
        self._stored[name] = self._stored_codes_sql(key, raw)
        self.joins.append(f"LEFT JOIN {name} ON {raw} = {name}.stored")
        if key.nulls is None:
            return f"{name}.code"
        return f"CASE WHEN {raw} IS NULL THEN {key.nulls} ELSE {name}.code END"

    def _stored_codes_sql(self, key: Key, raw: str) -> str:
        """Return a SELECT of the stored values of a key, each with its code."""
        # The look-up table is created by a statement of its own, whose joins are not those of the
        # rows.
        rows, self.joins = self.joins, []
        kind, zone = self.physical[key.column], self.query.table.time_zone
        known = f"SELECT value FROM {self._key_table_name(key)}"
        meant = typed_value_sql(key.column, self.columns[key.column], kind, zone, known, "stored")
        code = super()._code_sql(key, "meant.value", of_groups=True)
        join, self.joins = " ".join(self.joins), rows
        steps = [
            ("there", f"SELECT DISTINCT {raw} AS stored FROM typed"),
            ("meant", f"SELECT stored, {meant} AS value FROM there WHERE stored IS NOT NULL"),
            ("", f"SELECT stored, {code} AS code FROM meant {join}"),
        ]
        return self._statement_sql(steps)


def compile_finest_rows(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> FinestRows:
    """Return the statement of a family's rows, which the caller sums.

    No aggregate may count distinct values. The parameters and the error are those of
    `compile_finest`.
    """
    return _FinestRowCompiler(query, physical, joined or {}, bounded=bounded).rows()


def compile_finest(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
    *,
    bounded: bool = False,
) -> FinestCells:
    """Return the statement of the finest cells, which is the same for every table of a family.

    If `bounded` is true, the statement reads `dp_kept`, the rows that are left after contribution
    limits were applied outside of the engine.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _FinestCellCompiler(query, physical, joined or {}, bounded=bounded).cells()


def compile_level(query: Query, physical: Mapping[str, str], level: KeySpace) -> FinestCells:
    """Return the statement that sums a level's cells from the finest cells of a family."""
    compiler = _FinestCellCompiler(query, physical, {})
    return FinestCells(compiler.level_sql(level), tuple(compiler.key_tables))


def compile_of_finest(
    query: Query, physical: Mapping[str, str], level: KeySpace | None = None
) -> CompiledQuery:
    """Return the statement that sums a table from its family's finest cells, or from a level's."""
    if query.finest is None:
        raise TypeError("only tables of a family have finest cells")
    compiler = Compiler(query, physical, {})
    sql = (
        compiler.finest_total_sql(query.finest)
        if level is None
        else compiler.finest_total_sql(level, LEVEL_RELATION)
    )
    names = tuple(measurement.name for measurement in compiler.vectors)
    return CompiledQuery(sql, tuple(compiler.key_tables), names, {})


def compile_query(
    query: Query,
    physical: Mapping[str, str],
    joined: Mapping[str, str] | None = None,
) -> CompiledQuery:
    """Return the SQL of a query.

    Parameters
    ----------
    query
        The resolved query.
    physical
        The DuckDB type of every stored column that the query reads.
    joined
        The DuckDB types of the joined table's columns.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return Compiler(query, physical, joined or {}).compile()


def compile_partitions(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> str:
    """Return the SELECT of the partitions of a query with private keys.

    The parameters and the error are those of `compile_query`.
    """
    return Compiler(query, physical, joined or {}).partitions()


def compile_without_data(query: Query) -> CompiledQuery:
    """Return the SQL of a query for the column types that its declaration implies."""
    return compile_query(query, assumed_types(query), assumed_joined_types(query))


def compile_rows_within_limits(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str] | None = None
) -> tuple[str, CompiledQuery]:
    """Return the SELECT of all rows with an id, and the statements over the kept rows.

    The function serves queries whose contribution limits are applied outside of the engine. The
    caller applies the limits to the rows of the SELECT, and registers the kept rows as the relation
    `dp_kept`, which the statements read. The parameters and the error are those of `compile_query`.
    """
    compiler = Compiler(query, physical, joined or {}, bounded=True)
    compiled = compiler.compile()
    return compiler.all_rows_sql, compiled
