"""Compute the outer part of a statement from noised tables and public tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dprelease.exact.engines import frame_of, refuse_frame_about_people
from dprelease.exact.post_view import run_statement, to_pandas
from dprelease.exact.settings import Settings
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.planning.plan import Plan
from dprelease.postprocess.formula_intervals import FormulaInterval
from dprelease.query.measurement import OutputColumn
from dprelease.query.outer_sql.formulas import ENDS, Formula
from dprelease.query.outer_sql.statement import SplitStatement
from dprelease.query.resolve import Query
from dprelease.query.select import PrivateCore
from dprelease.query.view import public_table_formulas
from dprelease.schema.load import Declaration
from dprelease.tables.arrays import float_array
from dprelease.tables.published_columns import as_floats
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


Intervals = Mapping[str, Mapping[Formula, FormulaInterval]]


def prepare_intervals(split: SplitStatement, plan: Plan) -> Intervals:
    """Return the intervals of the formulas of a statement, by core, before anything is charged."""
    laws: dict[str, dict[str, Randomizer]] = {name: {} for name in split.cores}
    columns: dict[str, dict[str, OutputColumn]] = {}
    for one in plan.columns:
        laws[one.query.name][one.measurement.name] = one.mechanism
        columns[one.query.name] = {column.name: column for column in one.query.columns}
    return {
        name: {
            formula: FormulaInterval.of(formula, columns[name], laws[name], core.confidence)
            for formula in core.intervals
        }
        for name, core in split.cores.items()
    }


def answer_of(
    split: SplitStatement,
    noised: Mapping[str, pa.Table],
    intervals: Intervals,
    public: Tables = NO_TABLES,
) -> pd.DataFrame:
    """Return the answer of a statement, from the noised tables of its cores by name.

    `intervals`: those of `prepare_intervals`. `public`: the public tables by their names in the
    outer statement.
    """
    tables = {}
    for name, core in split.cores.items():
        table, ends = noised[name], {}
        for formula, prefix in core.intervals.items():
            found = intervals[name][formula].ends(_numbers_of(table), table.num_rows)
            ends |= {f"{prefix}{end}": float_array(x) for end, x in zip(ENDS, found, strict=True)}
        tables[split.tables[name]] = _with_columns(outer_table(core, table), ends)
    return to_pandas(run_statement(split.outer, {**tables, **public}))


def _numbers_of(table: pa.Table) -> Callable[[str], Floats]:
    """Return a function that returns a column of a table as floats, by its name."""
    return lambda name: as_floats(table.column(name).combine_chunks())


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table with further columns."""
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def try_statement(
    queries: Sequence[Query], split: SplitStatement, public: Tables = NO_TABLES
) -> None:
    """Compute a statement from blank tables and public tables, before anything is charged.

    Raises
    ------
    QueryError
        DP-SQL-007 if the engine can't compute it, for example with values of the wrong type.
    """
    tables = {}
    for query in queries:
        core, blank = split.cores[query.name], trial_table(query)
        zeros = float_array(np.zeros(blank.num_rows))
        ends = {f"{start}{end}": zeros for start in core.intervals.values() for end in ENDS}
        tables[split.tables[query.name]] = _with_columns(outer_table(core, blank), ends)
    run_statement(split.outer, {**tables, **public}, trial=True)


def outer_table(core: PrivateCore, noised: pa.Table) -> pa.Table:
    """Return the noised table of a core with the names of columns in the outer statement."""
    wanted = [*core.group_by, *core.fields]
    names = [core.fields.get(column, column) for column in wanted]
    return noised.select(wanted).rename_columns(names)
