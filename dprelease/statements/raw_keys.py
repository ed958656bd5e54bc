"""SQL of the values by which the rows of a query are grouped, before their cells are looked up.

The private keys of a row become one text, which names the row's partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.query import quoting
from dprelease.query.grouping.group_keys import Key
from dprelease.query.grouping.private_keys import COMPOSITE
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, Column, CutColumn, IntegerColumn
from dprelease.schema.field_types import DROP
from dprelease.statements.allocated_areas import allocated_column
from dprelease.statements.layers import cut_case_sql, typed_column_sql
from dprelease.statements.values.categories import EXACT

FIRST_DAY, LAST_DAY = "DATE '0001-01-01'", "DATE '9999-12-31'"


def partition_sql(query: Query) -> str:
    """Return SQL of the text of a row's partition, which is NULL if any key is missing.

    The text consists of the length, in characters, and the value of each key, so that different
    combinations of values have different texts.
    """
    if query.private is None:
        raise TypeError("the query has public keys")
    texts = [key_text_sql(name, query.table.columns) for name, _ in query.private.columns]
    parts = [f"CAST(length({text}) AS VARCHAR) || ':' || {text}" for text in texts]
    return " || ".join(parts) or "''"


def key_text_sql(name: str, columns: Mapping[str, Column]) -> str:
    """Return SQL of a key's value as text, which is NULL for rows that are dropped."""
    column, value = columns[name], typed_column_sql(allocated_column(columns, name))
    match column:
        case CutColumn():
            return f"({cut_case_sql(column, as_label=True)})"
        case CategoryColumn():
            return _declared_value_sql(column, value)
    match column.type:
        case "date":
            inside = f"{value} BETWEEN {FIRST_DAY} AND {LAST_DAY}"
            return f"CAST(CASE WHEN {inside} THEN {value} END AS VARCHAR)"
        case "integer":
            return _integer_text_sql(column, f"TRY_CAST({value} AS BIGINT)")
    return f"CAST({value} AS VARCHAR)"


def _integer_text_sql(column: Column, value: str) -> str:
    """Return SQL of an integer as text; NULL for an integer that shares a float with another one.

    The bounds of a column within 2^53 exclude such integers, whatever the stored type is.
    """
    ends = (column.lower, column.upper) if isinstance(column, IntegerColumn) else ()
    if ends and all(end is not None and abs(end) <= EXACT for end in ends):
        value = f"CASE WHEN {value} > -{EXACT} AND {value} < {EXACT} THEN {value} END"
    return f"CAST({value} AS VARCHAR)"


def _declared_value_sql(column: CategoryColumn, value: str) -> str:
    """Return SQL of the declared value of a category, with the same rules as for public keys."""
    known = ", ".join(quoting.text(text) for text in column.values or ())
    null, other = (
        "NULL" if cell == DROP else quoting.text(cell) for cell in (column.fill, column.others)
    )
    return (
        f"(CASE WHEN {value} IS NULL THEN {null} WHEN {value} IN ({known}) THEN {value} "
        f"ELSE {other} END)"
    )


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
