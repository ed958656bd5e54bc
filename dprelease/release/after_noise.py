"""Compute the outer part of a statement from noised tables and public tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from dprelease.exact.engines import frame_of, refuse_frame_about_people
from dprelease.exact.post_view import run_statement, to_pandas
from dprelease.exact.settings import Settings
from dprelease.query.outer_sql.statement import SplitStatement
from dprelease.query.resolve import Query
from dprelease.query.view import public_table_formulas
from dprelease.schema.load import Declaration
from dprelease.tables.published_tables import trial_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Tables = Mapping[str, "pa.Table"]
NO_TABLES: Tables = MappingProxyType({})


def blank_public_tables(declaration: Declaration, split: SplitStatement) -> Tables:
    """Return the public tables of a statement without rows, by their names in it.

    Raises
    ------
    QueryError
        DP-JOIN-003 if the source of a public table is that of a table about people.
    """
    if not split.public:
        return NO_TABLES
    from dprelease.exact.reading.public_rows import blank_rows

    for name in split.public:
        _ = public_table_formulas(declaration.tables[name], declaration.tables)
    return {
        outer_name: blank_rows(declaration.tables[name], split.public_columns[name])
        for name, outer_name in split.public.items()
    }


def read_public_tables(
    declaration: Declaration, split: SplitStatement, frames: Mapping[str, object]
) -> Tables:
    """Return the public tables of a statement by their names in it, before anything is charged.

    Raises
    ------
    DataError
        If a source can't be read as declared.
    """
    if not split.public:
        return NO_TABLES
    from dprelease.exact.reading.public_rows import read_public_rows

    found = {}
    for name, outer_name in split.public.items():
        declared = declaration.tables[name]
        formulas = public_table_formulas(declared, declaration.tables)
        tables = [one.table for one in declaration.tables.values()]
        refuse_frame_about_people(declared.table, tables, frames)
        frame, settings = frame_of(declared.table, frames), Settings.of(declaration)
        columns = split.public_columns[name]
        found[outer_name] = read_public_rows(declared, frame, formulas, columns, settings)
    return found


def answer_of(
    split: SplitStatement, noised: Mapping[str, pa.Table], public: Tables = NO_TABLES
) -> pd.DataFrame:
    """Return the answer of a statement, from the noised tables of its cores by name.

    `public`: the public tables by their names in the outer statement.
    """
    return to_pandas(run_statement(split.outer, {**tables_after_noise(split, noised), **public}))


def try_statement(
    queries: Sequence[Query], split: SplitStatement, public: Tables = NO_TABLES
) -> None:
    """Compute a statement from blank tables and public tables, before anything is charged.

    Raises
    ------
    QueryError
        DP-SQL-007 if the engine can't compute it, for example with values of the wrong type.
    """
    blank = {query.name: trial_table(query) for query in queries}
    tables = {**tables_after_noise(split, blank), **public}
    run_statement(split.outer, tables, trial=True)


def tables_after_noise(
    split: SplitStatement, noised: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    """Return the noised tables with the names of tables and columns in the outer statement."""
    tables = {}
    for name, core in split.cores.items():
        wanted = [*core.group_by, *core.fields]
        names = [core.fields.get(column, column) for column in wanted]
        tables[split.tables[name]] = noised[name].select(wanted).rename_columns(names)
    return tables
