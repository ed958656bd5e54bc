"""Plan the jobs of tables whose privacy units have ids, from declarations alone.

Rows are sent to the task of their privacy unit. The task that reads a row converts its keys to
codes, and sends the codes and the values. Rows of two joined tables about people are sent as
stored, because they are joined after they are grouped by privacy unit. Rows with private keys are
also sent as stored, because these keys are texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dprelease.exact.spark.executors.tasks import PublicData
from dprelease.exact.spark.executors.unit_tasks import ROWS_RELATION, TableTask
from dprelease.exact.spark.jobs import ShuffleRows, UnitJob
from dprelease.exact.spark.spark_input import TaskInput
from dprelease.exact.spark.spark_sources import SparkSources
from dprelease.query.resolve import Query
from dprelease.query.scans.shared_sources import SharedSource
from dprelease.schema.columns import IntegerColumn
from dprelease.statements.partial import PartialQuery, compile_partial
from dprelease.statements.rows_of_ids import CompiledRows, compile_rows


def plan_unit_job(
    sources: SparkSources, queries: Sequence[Query]
) -> tuple[list[PartialQuery], UnitJob]:
    """Return the statements of queries that share their rows, and the job for all their sums.

    Their tables are numbered by the index of the query.
    """
    if queries[0].private is not None or queries[0].finest is not None:
        return plan_stored_rows_job(sources, queries)
    group = SharedSource()
    for query in queries:
        group.add(query)
    combined_query = group.query(m for query in group.queries for m in query.measurements)
    at = sources.locate_inputs(combined_query)
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in group.queries]
    compiled = compile_rows(group, *types)
    public = sources.public_data(combined_query, compiled.key_tables)
    if len(at) > 1:
        held, sent = compiled, _stored_inputs(sources, combined_query, at)
    else:
        held = replace(compiled, sql=f"SELECT * FROM {ROWS_RELATION}", key_tables=())
        sent = (ShuffleRows(at[0], compiled.sql, "id", public, coded=True),)
        public = PublicData()
    tables = [
        _table_task(number, query, held, partial)
        for number, (query, partial) in enumerate(zip(group.queries, partials, strict=True))
    ]
    return partials, UnitJob(sent, tuple(tables), held, public, has_text_ids(combined_query))


def plan_stored_rows_job(
    sources: SparkSources, queries: Sequence[Query]
) -> tuple[list[PartialQuery], UnitJob]:
    """Return statements and job of one query with private keys, or of the tables of one family.

    Each table of a family bounds the same rows, by the finest cells.
    """
    at = sources.locate_inputs(queries[0])
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in queries]
    tables = [
        TableTask(
            number, query.unit, (query.finest or query.keys).size, _value_columns(query),
            partial.all_rows_sql, partial.sql, key_tables=partial.key_tables,
        )
        for number, (query, partial) in enumerate(zip(queries, partials, strict=True))
    ]  # fmt: skip
    return partials, job_over_stored_rows(sources, queries[0], at, tables)


def job_over_stored_rows(
    sources: SparkSources,
    query: Query,
    at: Sequence[TaskInput],
    tables: Sequence[TableTask],
) -> UnitJob:
    """Return the job of tables over the rows of units as they are stored."""
    public = sources.public_data(query, ())
    return UnitJob(
        _stored_inputs(sources, query, at), tuple(tables), None, public, has_text_ids(query)
    )


def _value_columns(query: Query) -> tuple[str, ...]:
    return tuple(f"v{j}" for j, m in enumerate(query.measurements) if m.aggregate.reads_values)


def has_text_ids(query: Query) -> bool:
    """Return whether ids are texts."""
    unit = query.unit.id
    return unit is not None and not isinstance(query.table.columns[unit], IntegerColumn)


def _stored_inputs(
    sources: SparkSources, query: Query, at: Sequence[TaskInput]
) -> tuple[ShuffleRows, ...]:
    """Return the rows that each input sends to the shuffle, with the SQL that selects them."""
    return tuple(
        ShuffleRows(one, "", sources.unit_sql(query, place, dict(one.rows.physical)))
        for place, one in enumerate(at)
    )


def _table_task(number: int, query: Query, held: CompiledRows, partial: PartialQuery) -> TableTask:
    """Return the task that bounds the rows of one query and sums them."""
    columns = held.columns[query.name]
    values = "".join(f", r{place} AS {name}" for name, place in columns.values)
    rows = (
        f"SELECT id, r{columns.cells} AS cell{values} FROM ({held.sql}) "
        f"WHERE r{columns.cells} IS NOT NULL"
    )
    names = tuple(name for name, _ in columns.values)
    return TableTask(number, query.unit, query.keys.size, names, rows, partial.sql, columns)
