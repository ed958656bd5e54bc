"""Read the public tables of a statement, before and after the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlglot import exp

from dprelease.exact.engines import frame_of, refuse_frame_about_people
from dprelease.exact.post_view import run_statement
from dprelease.exact.settings import DEFAULT_SETTINGS, Settings
from dprelease.query.outer_sql.public_queries import (
    columns_read,
    public_tables_of,
    safe_public_query,
)
from dprelease.query.outer_sql.statement import SplitStatement
from dprelease.query.view import public_table_formulas
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pyarrow as pa


Tables = Mapping[str, "pa.Table"]
NO_TABLES: Tables = MappingProxyType({})


def blank_public_tables(declared: Mapping[str, Declared], split: SplitStatement) -> Tables:
    """Return the public tables of a statement without rows, by their names in it.

    Raises QueryError: DP-JOIN-003 if the source of a public table is that of a table about people.
    """
    if not split.public:
        return NO_TABLES
    from dprelease.exact.reading.public_rows import blank_rows

    for name in split.public:
        # Raises for rows of people also if only a plan is wanted, which reads none.
        _ = public_table_formulas(declared[name], declared)
    return {
        outer_name: blank_rows(declared[name], split.public_columns[name])
        for name, outer_name in split.public.items()
    }


def read_public_tables(
    declared: Mapping[str, Declared],
    split: SplitStatement,
    frames: Mapping[str, object],
    settings: Settings = DEFAULT_SETTINGS,
) -> Tables:
    """Return the public tables of a statement by their names in it, before anything is charged.

    Raises DataError if a source can't be read as declared.
    """
    if not split.public:
        return NO_TABLES
    from dprelease.exact.reading.public_rows import read_public_rows

    found = {}
    for name, outer_name in split.public.items():
        public = declared[name]
        formulas = public_table_formulas(public, declared)
        refuse_frame_about_people(public.table, [one.table for one in declared.values()], frames)
        frame, columns = frame_of(public.table, frames), split.public_columns[name]
        found[outer_name] = read_public_rows(public, frame, formulas, columns, settings)
    return found


@dataclass(frozen=True, slots=True)
class PublicValues:
    """Reads public tables for the values that a statement contains before anything is charged.

    `names`: the tables that were read.
    """

    declared: Mapping[str, Declared]
    frames: Mapping[str, object]
    names: dict[str, None] = field(default_factory=dict)

    def rows(self, query: exp.Query) -> list[tuple[object, ...]]:
        """Return the rows of a query over public tables.

        Raises DataError if a source can't be read as declared; QueryError: DP-JOIN-003 if it is
        that of a table about people, DP-SQL-006 or 007 if the query can't be computed.
        """
        read = public_tables_of(query, {name: one.table for name, one in self.declared.items()})
        self.names.update(dict.fromkeys(read))
        columns = {name: columns_read(query, table) for name, table in read.items()}
        named = SplitStatement(public={one: one for one in read}, public_columns=columns)
        tables = read_public_tables(self.declared, named, self.frames)
        found = run_statement(safe_public_query(query, read), tables, trial=True)
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
