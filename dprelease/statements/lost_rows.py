"""SQL that counts the rows that a query leaves out, by reason, and the values that it clamps.

The SQL uses the typed rows, the condition and the cells of the query's own statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dprelease.query import quoting
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, IntegerColumn, NumberColumn
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.layers import SOURCE, needed_columns, typed_column_sql, typed_rows_sql
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.raw_keys import key_text_sql, raw_key_sql
from dprelease.statements.values.missing_codes import missing_code_sql, unread_code_sql
from dprelease.statements.values.physical import base_type

ROWS, CONDITION, NO_CELL, NO_ID = "rows", "condition", "no cell", "no id"
UNREAD, KEY, LOW, HIGH, MISSING = "unread", "key", "low", "high", "missing"


@dataclass(frozen=True, slots=True)
class LeftOutRows:
    """Two SELECTs that each return one row of counts, with the reason and column of each count.

    `stored_sql` counts stored rows of the source, and `selected_sql` counts typed rows of the
    query. `stored_counts` and `selected_counts` are the pairs (reason, column) of the counts of
    each SELECT, in the order of its columns.
    """

    stored_sql: str
    stored_counts: tuple[tuple[str, str], ...]
    selected_sql: str
    selected_counts: tuple[tuple[str, str], ...]
    key_tables: tuple[KeyTable, ...]


def compile_left_out_rows(
    query: Query, physical: Mapping[str, str], joined: Mapping[str, str]
) -> LeftOutRows:
    """Return the statements that count the rows that a query leaves out.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    stored = dict(_unread_counts(query, physical))
    compiler = Compiler(query, physical, joined)
    counts = dict(_left_out_counts(compiler))
    rows = compiler.allocated_sql(typed_rows_sql(query, physical, joined, compiler.untyped))
    last = f"SELECT {', '.join(counts.values())} FROM typed {' '.join(compiler.joins)}"
    return LeftOutRows(
        f"SELECT {', '.join(stored.values())} FROM {SOURCE}",
        tuple(stored),
        f"WITH typed AS (\n  {rows}\n)\n{last}",
        tuple(counts),
        tuple(compiler.key_tables),
    )


def _unread_counts(
    query: Query, physical: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield SQL counts of all rows, and of each column's stored values that can't be read."""
    yield (ROWS, ""), "count(*)"
    table = query.declared.table
    for name in needed_columns(query):
        column, quoted = table.columns[name], quoting.identifier(name)
        value = typed_value_sql(name, column, physical[name], table.time_zone)
        is_present = f"{quoted} IS NOT NULL"
        if base_type(physical[name]) == "VARCHAR":
            is_present += f" AND trim({quoted}) <> ''"
        kind = base_type(physical[name])
        codes = [
            missing_code_sql(value, quoted, kind, column, table.time_zone),
            unread_code_sql(quoted, kind, column),
        ]
        for code in filter(None, codes):
            is_present += f" AND NOT coalesce({code}, false)"
        yield (UNREAD, name), _count_sql(f"{is_present} AND ({value}) IS NULL")


def _left_out_counts(compiler: Compiler) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield SQL counts of the rows that a query leaves out, and of missing and clamped values.

    Each row is counted under the first reason that applies. Values are counted in the rows that
    have a cell and an id, before contribution limits.
    """
    query, predicate = compiler.query, compiler.query.predicate
    columns = query.table.columns
    # A condition that is NULL selects no row, as in WHERE.
    meets = "true" if predicate is None else f"coalesce(({predicate.sql}), false)"
    codes = {
        key.column: compiler._code_sql(key, raw_key_sql(query, key)) for key in compiler.space.keys
    }
    if query.private is not None:  # any text may be a key
        codes = {name: key_text_sql(name, columns) for name, _ in query.private.columns}
    inside = " AND ".join([f"({code}) IS NOT NULL" for code in codes.values()]) or "true"
    known = "true"
    if query.unit.id is not None:
        known = f"{typed_column_sql(query.unit.id)} IS NOT NULL"
    yield (ROWS, ""), "count(*)"
    yield (CONDITION, ""), _count_sql(f"NOT ({meets})")
    for name, code in codes.items():
        yield (KEY, name), _count_sql(f"{meets} AND ({code}) IS NULL")
    yield (NO_CELL, ""), _count_sql(f"{meets} AND NOT ({inside})")
    yield (NO_ID, ""), _count_sql(f"{meets} AND {inside} AND NOT ({known})")
    counts = f"{meets} AND {inside} AND {known}"
    read = [factor for m in query.measurements for factor in m.aggregate.factors]
    names = [factor.column for factor in read if factor.lattice is not None]
    for name in dict.fromkeys(name for name in names if name is not None):
        value = typed_column_sql(name)
        yield (MISSING, name), _count_sql(f"{counts} AND {value} IS NULL")
        for what, outside in _clamp_conditions(columns[name], value):
            yield (what, name), _count_sql(f"{counts} AND {outside}")


def _clamp_conditions(column: Column, value: str) -> Iterator[tuple[str, str]]:
    """Yield the SQL conditions that a value is clamped: to the lower bound, to the upper bound."""
    if not isinstance(column, IntegerColumn | NumberColumn):
        return
    for what, sign, end in ((LOW, "<", column.lower), (HIGH, ">", column.upper)):
        if end is not None:
            number = quoting.integer(int(end)) if end == int(end) else quoting.double(end)
            yield what, f"{value} {sign} {number}"


def _count_sql(condition: str) -> str:
    """Return the SQL of the number of rows that meet a condition."""
    return f"count(*) FILTER (WHERE {condition})"
