"""Plan the jobs of tables whose units have ids, from declarations alone.

Rows are sent by unit as codes of keys and values, made where they are read. Rows of two joined
tables about people are joined after they are grouped by unit, so they are sent as stored. Rows
with non-public keys are also sent as stored, because these keys are texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dprelease.exact.spark.executors.tasks import Public
from dprelease.exact.spark.executors.unit_tasks import ROWS, TableTask
from dprelease.exact.spark.jobs import ShuffleRows, UnitJob
from dprelease.exact.spark.spark_input import TaskInput
from dprelease.exact.spark.spark_sources import Sources
from dprelease.query.resolve import Query
from dprelease.query.scans.shared_sources import SharedSource
from dprelease.schema.columns import IntegerColumn
from dprelease.statements.partial import Partial, compile_partial
from dprelease.statements.rows_of_ids import CompiledRows, compile_rows


def plan_unit_job(sources: Sources, queries: Sequence[Query]) -> tuple[list[Partial], UnitJob]:
    """Return the statements of queries that share their rows, and the job for all their sums.

    Their tables are numbered by the index of the query.
    """
    if queries[0].private is not None or queries[0].finest is not None:
        return plan_stored_rows_job(sources, queries)
    group = SharedSource()
    for query in queries:
        group.add(query)
    asked = group.query(m for query in group.queries for m in query.measurements)
    at = sources.locate_inputs(asked)
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in group.queries]
    compiled = compile_rows(group, *types)
    public = sources.public(asked, compiled.key_tables)
    if len(at) > 1:
        held, sent = compiled, _stored_inputs(sources, asked, at)
    else:
        held = replace(compiled, sql=f"SELECT * FROM {ROWS}", key_tables=())
        sent = (ShuffleRows(at[0], compiled.sql, "id", public, coded=True),)
        public = Public()
    tables = [
        _table(number, query, held, partial)
        for number, (query, partial) in enumerate(zip(group.queries, partials, strict=True))
    ]
    return partials, UnitJob(sent, tuple(tables), held, public, is_text(asked))


def plan_stored_rows_job(
    sources: Sources, queries: Sequence[Query]
) -> tuple[list[Partial], UnitJob]:
    """Return statements and job of one query with private keys, or of the tables of one family.

    Each table of a family bounds the same rows, by the finest cells.
    """
    at = sources.locate_inputs(queries[0])
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in queries]
    tables = [
        TableTask(
            number, query.unit, (query.finest or query.keys).size, _values(query),
            partial.unbounded, partial.sql, key_tables=partial.key_tables,
        )
        for number, (query, partial) in enumerate(zip(queries, partials, strict=True))
    ]  # fmt: skip
    return partials, job_over_stored_rows(sources, queries[0], at, tables)


def job_over_stored_rows(
    sources: Sources,
    query: Query,
    at: Sequence[TaskInput],
    tables: Sequence[TableTask],
) -> UnitJob:
    """Return the job of tables over the rows of units as they are stored."""
    public = sources.public(query, ())
    return UnitJob(_stored_inputs(sources, query, at), tuple(tables), None, public, is_text(query))


def _values(query: Query) -> tuple[str, ...]:
    return tuple(f"v{j}" for j, m in enumerate(query.measurements) if m.aggregate.reads_values)


def is_text(query: Query) -> bool:
    """Return whether ids are texts."""
    unit = query.unit.id
    return unit is not None and not isinstance(query.table.columns[unit], IntegerColumn)


def _stored_inputs(
    sources: Sources, query: Query, at: Sequence[TaskInput]
) -> tuple[ShuffleRows, ...]:
    return tuple(
        ShuffleRows(one, "", sources.unit(query, place, dict(one.rows.physical)))
        for place, one in enumerate(at)
    )


def _table(number: int, query: Query, held: CompiledRows, partial: Partial) -> TableTask:
    columns = held.columns[query.name]
    values = "".join(f", r{place} AS {name}" for name, place in columns.values)
    rows = (
        f"SELECT id, r{columns.cells} AS cell{values} FROM ({held.sql}) "
        f"WHERE r{columns.cells} IS NOT NULL"
    )
    names = tuple(name for name, _ in columns.values)
    return TableTask(number, query.unit, query.keys.size, names, rows, partial.sql, columns)
