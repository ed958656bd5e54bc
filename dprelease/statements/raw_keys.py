"""What the rows of a query are grouped by before the cells of the groups are found."""

from __future__ import annotations

from dprelease.query import quoting
from dprelease.query.grouping.group_keys import Key
from dprelease.query.grouping.private_keys import COMPOSITE
from dprelease.query.resolve import Query
from dprelease.schema.columns import CutColumn
from dprelease.statements.layers import cut_case, typed_column
from dprelease.statements.partition_counts import partition


def raw_key(query: Query, key: Key) -> str:
    """Return what rows are grouped by: the text of a text key, the code of any other."""
    if key.column == COMPOSITE:
        return partition(query)
    column, value = query.table.columns[key.column], typed_column(key.column)
    if isinstance(column, CutColumn):
        return cut_case(column, as_label=False, key=key)
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
    # Cast first: the difference of two TINYINT may not be a TINYINT.
    code = f"CAST({value} AS BIGINT) - {low}"
    if key.kind == "date":
        code = f"CAST({value} - {low} AS BIGINT)"
    missing = "" if key.nulls is None else f"WHEN {value} IS NULL THEN {null} "
    return f"CASE {missing}WHEN {inside} THEN {code} ELSE {none} END"
