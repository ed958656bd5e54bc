"""Compute the outer part of a statement from noised tables, and describe the answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.documents.column_metadata import value_labels
from dprelease.errors import DpReleaseError, Place
from dprelease.exact.post_view import run_statement, to_pandas
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.planning.bounded_words import contribution_limits_texts, measured_value_text
from dprelease.planning.plan import Plan
from dprelease.postprocess.formula_intervals import FormulaInterval
from dprelease.query.measurement import OutputColumn
from dprelease.query.outer_sql.formulas import ENDS, Formula
from dprelease.query.outer_sql.statement import SplitStatement
from dprelease.query.outer_sql.strict_types import check_types
from dprelease.query.resolve import Query
from dprelease.query.select import PrivateCore
from dprelease.query.sql_rewrites.unanswerable import refuse
from dprelease.release.public_tables import NO_TABLES, Tables
from dprelease.schema.columns import Column, CutColumn
from dprelease.schema.localized_text import LocalizedText
from dprelease.tables.arrays import float_array
from dprelease.tables.key_columns import PublicKeys
from dprelease.tables.published_columns import as_floats
from dprelease.tables.published_tables import trial_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Intervals = Mapping[str, Mapping[Formula, FormulaInterval]]


def prepare_intervals(split: SplitStatement, plan: Plan) -> Intervals:
    """Return the intervals of the formulas of a statement, by core, before anything is charged.

    Raises QueryError: DP-SQL-006 for a formula of dates, which are no numbers.
    """
    mechanisms: dict[str, dict[str, Randomizer]] = {name: {} for name in split.cores}
    columns: dict[str, dict[str, OutputColumn]] = {}
    for one in plan.columns:
        mechanisms[one.query.name][one.measurement.name] = one.mechanism
        columns[one.query.name] = {column.name: column for column in one.query.columns}
    for name, core in split.cores.items():
        for formula in core.intervals:
            for column in formula.columns:
                if columns[name][column].time_unit:
                    fix = "leave out the margins, or use date_diff"
                    refuse(f"The interval of '{column}'", "its values are dates or timestamps", fix)
    return {
        name: {
            formula: FormulaInterval.of(formula, columns[name], mechanisms[name], core.confidence)
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
        table = noised[name]
        ends: dict[str, pa.Array] = {}
        for formula, prefix in core.intervals.items():
            found = intervals[name][formula].ends(_numbers_of(table), table.num_rows)
            ends |= {f"{prefix}{end}": float_array(x) for end, x in zip(ENDS, found, strict=True)}
        tables[split.tables[name]] = _with_columns(outer_table(core, table), ends)
    return to_pandas(run_statement(split.outer, {**tables, **public}))


def _numbers_of(table: pa.Table) -> Callable[[str], Floats]:
    return lambda name: as_floats(table.column(name).combine_chunks())


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def try_statement(
    queries: Sequence[Query], split: SplitStatement, public: Tables = NO_TABLES
) -> None:
    """Compute a statement from blank tables and public tables, before anything is charged.

    Raises QueryError: DP-SQL-007 if the engine can't compute it, for example with values of the
    wrong type.
    """
    tables = {}
    for query in queries:
        core, blank = split.cores[query.name], trial_table(query)
        zeros = float_array(np.zeros(blank.num_rows))
        ends = {f"{start}{end}": zeros for start in core.intervals.values() for end in ENDS}
        tables[split.tables[query.name]] = _with_columns(outer_table(core, blank), ends)
    tables |= public
    run_statement(split.outer, tables, trial=True)
    # Types, also where no row is.
    check_types(split.outer_tree, lambda form: run_statement(f"EXPLAIN {form}", tables, trial=True))


def outer_table(core: PrivateCore, noised: pa.Table) -> pa.Table:
    """Return the noised table of a core with the names of columns in the outer statement."""
    wanted = [*core.group_by, *core.fields]
    names = [core.fields.get(column, column) for column in wanted]
    return noised.select(wanted).rename_columns(names)


COUNT_ROWS: dict[str, dict[str, Any]] = {"rows": {"count": "*"}}
"""The column with which a query of declared keys is resolved; it is not measured."""


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """The declared values of keys that a statement lists: no row changes them.

    `tables` have their names in the outer statement; `names` are the keys.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an answer that has no noisy value."""
        empty: dict[str, Any] = {"margins_95": {}, "ranks_95": {}, "mechanisms": {}}
        guarantee = {"epsilon": "0", "delta": "0"}
        return {"guarantee": guarantee, **empty, "bounded_rows": [], **self.note()}

    def note(self) -> dict[str, Any]:
        """Return the attribute that names the keys, if there are any."""
        return {"declared_keys": self.names} if self.names else {}

    def answer(self, split: SplitStatement) -> pd.DataFrame:
        """Return the answer of a statement that reads nothing else."""
        if split.public:
            reason = "it has no noisy table"
            refuse("A statement of declared keys and public tables", reason, "add COUNT(*)")
        # A trial: nothing here is a value of a release, so errors may quote the engine.
        return to_pandas(run_statement(split.outer, self.tables, trial=True))


NO_KEYS = DeclaredKeys()


def without_declared_keys(
    split: SplitStatement,
    private: Collection[str],
    resolve: Callable[[PrivateCore], Query],
    *,
    is_filtered: bool = False,
) -> tuple[SplitStatement, DeclaredKeys]:
    """Return a statement without its cores of declared keys alone, and the values of these keys.

    - `private`: the names of the cores whose keys are found in the data.
    - `resolve`: returns the query of a core with the columns `COUNT_ROWS`.
    - `is_filtered`: whether the rows have other conditions than those of the statement.

    Raises QueryError: DP-QUERY-002 for a key without declared values, DP-SQL-006 for a condition on
    rows.
    """
    found, cores = DeclaredKeys(), {}
    for name, core in split.cores.items():
        if core.columns or name in private:
            cores[name] = core
            continue
        try:
            query = resolve(core)
        except DpReleaseError as error:
            error.set_place(Place("sql", None, "DISTINCT"))
            raise
        values = declared_values(query, is_filtered=is_filtered or core.where is not None)
        found.tables[split.tables[name]] = outer_table(core, values)
        found.names.extend(core.group_by)
    return replace(split, cores=cores), found


def declared_values(query: Query, *, is_filtered: bool) -> pa.Table:
    """Return the declared values of the keys of a query, with a row for each combination.

    Raises QueryError: DP-SQL-006 if only some rows are meant (`is_filtered`), on which these values
    do not depend.
    """
    import pyarrow as pa

    if is_filtered:
        names = ", ".join(key.column for key in query.keys.keys)
        reason = "the declared values of a key do not depend on rows"
        fix = "count rows by this key, or find the keys in the data with private_keys"
        refuse(f"The values of {names} in some rows", reason, fix)
    return pa.table(PublicKeys(query.keys).of(0, query.keys.size))


Labels = dict[str, dict[str, Any]]
"""By declared column: its `label` and the labels of its `values`, by language.

The language `""` stands for every language.
"""


def labels_of(queries: Iterable[Query]) -> Labels:
    """Return the declared labels of all columns that queries group by or measure."""
    found: Labels = {}
    for query in queries:
        for name in _column_names(query):
            declared = query.table.columns.get(name)
            if declared is None:
                continue
            values, label = value_labels(declared), _declared_label(declared, query)
            labels: dict[str, Any] = {}
            if label is not None:
                labels["label"] = dict(label.by_language)
            if values:
                labels["values"] = {value: dict(said.by_language) for value, said in values.items()}
            if labels:
                found[name] = labels
    return found


def _declared_label(declared: Column, query: Query) -> LocalizedText | None:
    """Return the label of a column; for a cut without a label, the label of the column it cuts."""
    if declared.label is None and isinstance(declared, CutColumn):
        return query.table.columns[declared.cut].label
    return declared.label


def _column_names(query: Query) -> Iterator[str]:
    """Yield the declared columns that an answer groups by or measures."""
    yield from (key.column for key in query.key_columns)
    for measurement in query.measurements:
        column = measurement.aggregate.column
        if column is not None:
            yield column


def explained(
    plan: Plan | None, public: Iterable[str] = (), keys: DeclaredKeys = NO_KEYS
) -> pd.DataFrame:
    """Return a plan: a row for each measurement, then one for each computed column.

    `public`: the public tables that the statement reads by itself; each has a row as well, as
    each of the declared `keys` that it lists.
    """
    import pandas as pd

    rows = [] if plan is None else _plan_rows(plan)
    rows += [{"table": name, "counts": "public table, read without noise"} for name in public]
    rows += [{"column": name, "counts": "declared values, which are public"} for name in keys.names]
    frame = pd.DataFrame(rows)
    noted = keys.attributes() if plan is None else answer_attributes(plan, public)
    frame.attrs["dprelease"] = {**noted, **keys.note()}
    return frame


def _plan_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each measurement of a plan, then one for each computed column."""
    rows: list[dict[str, Any]] = [
        {
            "table": column.query.name,
            "column": column.measurement.name,
            "counts": measured_value_text(column.query, column.measurement),
            "mechanism": column.mechanism.name,
            "cells": column.query.cells,
            "sensitivity": str(column.measurement.sensitivity),
            "mean_error": column.mean_absolute_error,
            "margin": float(column.margin()),
            "unit": column.measurement.error_unit,
            "cost_alone": alone,
        }
        for column, alone in zip(plan.columns, plan.costs_alone(), strict=True)
    ]
    rows += [
        {
            "table": query.name,
            "column": column.name,
            "mechanism": column.formula,
            "margin": margin,
            "unit": column.unit,
        }
        for query, column, margin in plan.computed_columns()
    ]
    return rows


def answer_attributes(plan: Plan, public: Iterable[str] = ()) -> dict[str, Any]:
    """Return guarantee, margins, mechanisms, labels and row rules of an answer, as JSON values.

    `public`: the public tables that the statement reads by itself.
    """
    labels, tables = labels_of(plan.queries), list(public)
    return {
        "guarantee": plan.guarantee.to_json(),
        "margins_95": {
            c.measurement.name: float(c.margin())
            for c in plan.columns
            if not c.measurement.is_choice
        },
        "ranks_95": {
            c.measurement.name: float(c.margin()) for c in plan.columns if c.measurement.is_choice
        },
        "mechanisms": {c.measurement.name: c.mechanism.name for c in plan.columns},
        "bounded_rows": contribution_limits_texts(plan.queries),
        **({"labels": labels} if labels else {}),
        **({"public_tables": tables} if tables else {}),
    }
