"""The jobs of tables whose units have ids, from declarations alone.

Rows are sent by their unit as codes of keys and values, made where they are read. Two tables about
people are joined where their rows meet, and so are sent as they are stored; so are rows whose keys
are not public, for these are texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dprelease.exact.spark.jobs import Meeting, Sent
from dprelease.exact.spark.located import Located
from dprelease.exact.spark.sources import Sources
from dprelease.exact.spark.tasks import Public
from dprelease.exact.spark.unit_tasks import ROWS, Bounded
from dprelease.query.resolve import Query
from dprelease.query.scans.together import Together
from dprelease.schema.columns import IntegerColumn
from dprelease.statements.compiler import KeyTable
from dprelease.statements.partial import Partial, compile_partial
from dprelease.statements.rows_of_ids import CompiledRows, compile_rows


def shared(sources: Sources, group: Together) -> tuple[list[Partial], Meeting]:
    """Return the statements of queries with public keys, and the job that finds all their sums.

    The numbers of their tables are their places in the group.
    """
    asked = group.query(m for query in group.queries for m in query.measurements)
    at = sources.located(asked)
    types = sources.types(at)
    partials = [compile_partial(query, *types, bounded=True) for query in group.queries]
    compiled = compile_rows(group, *types)
    public = sources.public(asked, compiled.key_tables)
    if len(at) > 1:
        held, sent = compiled, _as_stored(sources, asked, at)
    else:
        held = replace(compiled, sql=f"SELECT * FROM {ROWS}", key_tables=())
        sent = (Sent(at[0], compiled.sql, "id", public, coded=True),)
        public = Public()
    tables = [
        _table(number, query, held, partial)
        for number, (query, partial) in enumerate(zip(group.queries, partials, strict=True))
    ]
    return partials, Meeting(sent, tuple(tables), held, public, is_text(asked))


def alone(sources: Sources, query: Query) -> tuple[Partial, Meeting]:
    """Return the same for a query whose keys were not public; its table has the number 0."""
    at = sources.located(query)
    partial = compile_partial(query, *sources.types(at), bounded=True)
    values = tuple(f"v{j}" for j, m in enumerate(query.measurements) if m.aggregate.reads_values)
    table = Bounded(0, query.unit, query.keys.size, values, partial.unbounded, partial.sql)
    return partial, as_they_meet(sources, query, at, table, partial.key_tables)


def as_they_meet(
    sources: Sources,
    query: Query,
    at: Sequence[Located],
    table: Bounded,
    key_tables: Sequence[KeyTable] = (),
) -> Meeting:
    """Return the job of one table over the rows of units as they are stored."""
    public = sources.public(query, key_tables)
    return Meeting(_as_stored(sources, query, at), (table,), None, public, is_text(query))


def is_text(query: Query) -> bool:
    """Return whether ids are texts."""
    unit = query.unit.id
    return unit is not None and not isinstance(query.table.columns[unit], IntegerColumn)


def _as_stored(sources: Sources, query: Query, at: Sequence[Located]) -> tuple[Sent, ...]:
    return tuple(
        Sent(one, "", sources.unit(query, place, dict(one.rows.physical)))
        for place, one in enumerate(at)
    )


def _table(number: int, query: Query, held: CompiledRows, partial: Partial) -> Bounded:
    columns = held.columns[query.name]
    values = "".join(f", r{place} AS {name}" for name, place in columns.values)
    rows = (
        f"SELECT id, r{columns.cells} AS cell{values} FROM ({held.sql}) "
        f"WHERE r{columns.cells} IS NOT NULL"
    )
    names = tuple(name for name, _ in columns.values)
    return Bounded(number, query.unit, query.keys.size, names, rows, partial.sql, columns)
