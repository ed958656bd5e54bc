"""SQL of the area to which a row is assigned if its category has `unallocated` parts of areas.

A row whose own code is missing or not declared is assigned to the unallocated part of the area one
level up, if the row has a code of that area, and otherwise of the area above it. Rows without any
such code are assigned by the substitutes of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dprelease.query import quoting
from dprelease.query.grouping.family_keys import outer_columns
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.schema.columns import CategoryColumn, Column
from dprelease.schema.public_values.unallocated import UNALLOCATED
from dprelease.statements.values.categories import is_short_list

KnownValues = Callable[[str], str]
"""A function that returns SQL of a category's values, for use after IN, by the column's name."""


def allocating_columns(columns: Mapping[str, Column], name: str) -> list[str]:
    """Return the columns whose areas decide where a row without a declared code counts.

    The nearest column comes first; the list is empty if the column has no unallocated parts.
    """
    column = columns[name]
    is_nested = isinstance(column, CategoryColumn) and column.has_unallocated
    return outer_columns(name, columns) if is_nested else []


def allocated_column(columns: Mapping[str, Column], name: str) -> str:
    """Return the name of the column of `typed` with the code to which a row is assigned.

    For most columns this is the column itself.
    """
    if not allocating_columns(columns, name):
        return name
    start = "dp_allocated_"
    # Compared without case, because the engine would find DP_ALLOCATED_x under this name, too.
    while any(column.casefold().startswith(start) for column in columns):
        start += "_"
    return start + name


def allocated_rows_sql(
    rows: str,
    columns: Mapping[str, Column],
    names: Sequence[str],
    key_table: Callable[[Key], str] | None,
) -> str:
    """Return a SELECT of rows with the codes to which they are assigned, if any column needs one.

    `names` are the columns by which rows are grouped. `key_table` returns the name of the table of
    a key's values, in which long lists are looked up; without it, the SQL has all values.
    """

    def values_sql(name: str) -> str:
        """Return SQL of the values of a category: a list of texts, or a SELECT of a table."""
        key = key_of(name, columns[name])
        if key_table is None or isinstance(key, str) or is_short_list(key.texts):
            return listed_values_sql(columns, name)
        return f"SELECT value FROM {key_table(key)}"

    added = [
        f"{allocated_code_sql(columns, name, values_sql)} AS "
        f"{quoting.identifier(allocated_column(columns, name))}"
        for name in dict.fromkeys(names)
        if allocating_columns(columns, name)
    ]
    return f"SELECT *, {', '.join(added)} FROM ({rows})" if added else rows


def allocated_code_sql(columns: Mapping[str, Column], name: str, known: KnownValues) -> str:
    """Return SQL of a row's own code, or of the unallocated part of the area that it names.

    The SQL is NULL, or a text that is not declared, if the row names no area at all.
    """
    path = [name, *allocating_columns(columns, name)]
    texts = [
        quoting.identifier(column) + (f" || {quoting.text(UNALLOCATED * i)}" if i else "")
        for i, column in enumerate(path)
    ]
    arms = [
        f"WHEN {quoting.identifier(column)} IN ({known(column)}) THEN {text}"
        for column, text in zip(path[:-1], texts[:-1], strict=True)
    ]
    return f"CASE {' '.join(arms)} ELSE {texts[-1]} END"


def listed_values_sql(columns: Mapping[str, Column], name: str) -> str:
    """Return SQL of all values of a category, as a list of texts."""
    column = columns[name]
    values = column.values or () if isinstance(column, CategoryColumn) else ()
    return ", ".join(map(quoting.text, values))
