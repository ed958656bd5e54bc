"""The partition of each row, as one text, for private keys."""

from __future__ import annotations

from dprelease.query import quoting
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, Column, CutColumn, IntegerColumn
from dprelease.schema.field_types import DROP
from dprelease.statements.layers import cut_case, typed_column
from dprelease.statements.values.categories import EXACT

FIRST_DAY, LAST_DAY = "DATE '0001-01-01'", "DATE '9999-12-31'"


def partition(query: Query) -> str:
    """Return the text of a row's partition: length and value of each key; NULL if one is missing.

    Lengths are in characters, so no two different rows of values have the same text.
    """
    if query.private is None:
        raise TypeError("the query has public keys")
    texts = [key_text(name, query.table.columns[name]) for name, _ in query.private.columns]
    parts = [f"CAST(length({text}) AS VARCHAR) || ':' || {text}" for text in texts]
    return " || ".join(parts) or "''"


def key_text(name: str, column: Column) -> str:
    """Return a key's value as text; NULL drops the row."""
    value = typed_column(name)
    match column:
        case CutColumn():
            return f"({cut_case(column, as_label=True)})"
        case CategoryColumn():
            return _declared_value(column, value)
    match column.type:
        case "date":
            inside = f"{value} BETWEEN {FIRST_DAY} AND {LAST_DAY}"
            return f"CAST(CASE WHEN {inside} THEN {value} END AS VARCHAR)"
        case "integer":
            return _as_integer(column, f"TRY_CAST({value} AS BIGINT)")
    return f"CAST({value} AS VARCHAR)"


def _as_integer(column: Column, value: str) -> str:
    """Return an integer; for columns read from floats, NULL for integers that share a float.

    With bounds within 2^53 there are none.
    """
    ends = (column.lower, column.upper) if isinstance(column, IntegerColumn) else ()
    if ends and all(end is not None and abs(end) <= EXACT for end in ends):
        value = f"CASE WHEN {value} > -{EXACT} AND {value} < {EXACT} THEN {value} END"
    return f"CAST({value} AS VARCHAR)"


def _declared_value(column: CategoryColumn, value: str) -> str:
    """Return the declared value of a category's stored value, as for public keys."""
    known = ", ".join(quoting.text(text) for text in column.values or ())
    null, other = (
        "NULL" if cell == DROP else quoting.text(cell) for cell in (column.nulls, column.others)
    )
    return (
        f"(CASE WHEN {value} IS NULL THEN {null} WHEN {value} IN ({known}) THEN {value} "
        f"ELSE {other} END)"
    )
