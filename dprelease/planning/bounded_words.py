"""Describe in sentences which rows count, in total and per person, for plan and manifest.

All sentences follow from declarations.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.query.grouping.group_keys import Key
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query


def measured_value_text(query: Query, measurement: Measurement) -> str:
    """Return a text on what a measurement counts or sums, and whether limits leave out rows."""
    return measurement.aggregate.description + (
        ", after contribution limits" if query.unit.contribution_limits_text else ""
    )


def contribution_limits_text(query: Query) -> str:
    """Return a text on the rows within contribution limits; empty if each row is a privacy unit.

    The number of rows that are left out depends on the data, so the text does not contain it.
    Whether rows may be left out, and why, follows from the limits and the number of groups.
    """
    if not query.unit.contribution_limits_text:
        return ""
    groups = f"{_finest_groups_text(query)}{_left_out_rows_text(query)}"
    return f"{query.unit.contribution_limits_text}. {groups}"


def _finest_groups_text(query: Query) -> str:
    """Return a sentence on the groups of a family's tables; empty for a table without a family."""
    if query.finest is None:
        return ""
    names = ", ".join(key.column for key in query.finest.keys) or "all rows"
    return (
        f"Groups are the finest cells of all tables of the family, by {names}; the same rows "
        "count in all of these tables. "
    )


def _left_out_rows_text(query: Query) -> str:
    """Return a sentence on the rows that `max_groups` may leave out."""
    most, rows = query.unit.max_groups, query.unit.max_rows_per_group
    cells = None if query.private else query.cells  # the number of selected keys is a result
    if query.finest is not None:
        cells = query.finest.size
    if cells is not None and cells <= most:
        only = "is one group" if cells == 1 else f"are {cells:,} groups"
        return (
            f"There {only}, so `max_groups` leaves out nothing; only rows above {rows} per group "
            "are left out"
        )
    keys = query.key_columns if query.finest is None else query.finest.keys
    days = [key.column for key in keys if key.kind == "date"]
    if days and cells is not None:
        on = "one day" if most == 1 else f"{most:,} days"
        return (
            f"With a group for each day of '{days[0]}', a privacy unit with rows on more than {on} "
            f"counts on only {most:,} of them"
        )
    among = "the groups found in the data" if cells is None else f"the {cells:,} groups"
    return (
        f"A privacy unit with rows in more than {most:,} of {among} counts in only {most:,} of them"
    )


def counted_rows_text(query: Query) -> str:
    """Return a sentence on which rows count in a table.

    In a family, all keys of all its tables decide, not only those of this table.
    """
    keys = [key.column for key in read_keys(query) if query.private or key.leaves_out_rows]
    conditions = []
    if query.predicate is not None:
        conditions.append("that meet the condition")
    if query.unit.id is not None:
        conditions.append(f"that have an id '{query.unit.id}'")
    if query.join is not None and query.join.by_unit:
        other = query.join.declared.table.name
        conditions.append(f"whose privacy unit has rows in '{other}'")
    if keys:
        of = "" if query.finest is None else ", the keys of all tables of the family"
        conditions.append(f"that have a declared value in each of {', '.join(keys)}{of}")
    if not conditions:
        return "All rows count."
    return f"Rows count {', and '.join(conditions)}."


def read_keys(query: Query) -> list[Key]:
    """Return the keys that a counted row must have; they are equal for all tables of a family."""
    return query.key_columns if query.finest is None else list(query.finest.keys)


def counted_rows_texts(queries: Sequence[Query]) -> list[str]:
    """Return sentences on which rows each table counts, before contribution limits."""
    names: dict[str, list[str]] = {}
    for query in queries:
        names.setdefault(counted_rows_text(query), []).append(query.name)
    return [f"{table_range_text(tables)}: {rows}" for rows, tables in names.items()]


def contribution_limits_texts(queries: Sequence[Query]) -> list[str]:
    """Return a sentence on the rows within contribution limits, for each query with limits.

    The tables of a family have one sentence in common, because they count the same rows.
    """
    names: dict[object, list[str]] = {}
    texts: dict[object, str] = {}
    for query in queries:
        rows = query.name if query.finest is None else id(query.finest)
        names.setdefault(rows, []).append(query.name)
        texts[rows] = texts.get(rows) or contribution_limits_text(query)
    found = [(table_range_text(names[rows]), text) for rows, text in texts.items() if text]
    return [f"{tables}: values are {text}." for tables, text in found]


def table_range_text(names: Sequence[str]) -> str:
    """Return the names of tables; of more than three tables, the first two and a number."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more tables"
