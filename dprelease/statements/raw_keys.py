"""SQL of the values by which the rows of a query are grouped, before their cells are looked up."""

from __future__ import annotations

from dprelease.query import quoting
from dprelease.query.grouping.group_keys import Key
from dprelease.query.grouping.private_keys import COMPOSITE
from dprelease.query.resolve import Query
from dprelease.schema.columns import CutColumn
from dprelease.statements.allocated_areas import allocated_column
from dprelease.statements.layers import cut_case_sql, typed_column_sql
from dprelease.statements.partition_counts import partition_sql


def raw_key_sql(query: Query, key: Key) -> str:
    """Return SQL of a key's value for grouping: the text of a text key, the code of other keys."""
    if key.column == COMPOSITE:
        return partition_sql(query)
    columns = query.table.columns
    column, value = columns[key.column], typed_column_sql(allocated_column(columns, key.column))
    if isinstance(column, CutColumn):
        return cut_case_sql(column, as_label=False, key=key)
    if key.kind == "text":
        return value
    none = str(len(key.values)) if key.rest else "NULL"
    null = none if key.nulls is None else str(key.nulls)
    if key.kind == "boolean":
        return f"CASE WHEN {value} IS NULL THEN {null} WHEN {value} THEN 1 ELSE 0 END"
    if key.kind == "integer":
        low, high = quoting.integer(key.whole[0]), quoting.integer(key.whole[-1])
    else:
        low, high = quoting.day(key.days[0]), quoting.day(key.days[-1])
    inside = f"{value} BETWEEN {low} AND {high}"
    # Cast before subtracting: the difference of two TINYINT numbers may not fit a TINYINT.
    code = f"CAST({value} AS BIGINT) - {low}"
    if key.kind == "date":
        code = f"CAST({value} - {low} AS BIGINT)"
    missing = "" if key.nulls is None else f"WHEN {value} IS NULL THEN {null} "
    return f"CASE {missing}WHEN {inside} THEN {code} ELSE {none} END"
