"""Describe in sentences which rows count, in total and per person, for plan and manifest.

All sentences follow from declarations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.query.aggregates.aggregate import IDS
from dprelease.query.forms.centred_moments import SUM
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.grouping.group_keys import Key
from dprelease.query.grouping.private_keys import UNKNOWN
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.release_parts.limit_choice import LIMITS


@dataclass(frozen=True, slots=True)
class CuttingLimits:
    """Contribution limits that may leave out rows of a privacy unit from a column.

    In the column, a privacy unit counts in at most `groups` groups, with at most `rows` rows in
    each, and at most `total` rows in all groups, unless None. `has_others`: whether the others can
    leave out rows that `total` leaves in. `counted` is what the column counts, as in
    `Aggregate.counted_kind`: rows, ids or neither. `clipped_sum` is the largest absolute sum of a
    privacy unit in a group, if sums are clipped. `chosen`: whether a limit that a label states was
    chosen privately.
    """

    groups: int
    rows: int
    counted: str
    total: int | None = None
    clipped_sum: Fraction | None = None
    has_others: bool = False
    chosen: bool = False


def cutting_limits(query: Query, parts: Sequence[Measurement]) -> CuttingLimits | None:
    """Return the limits that may leave out rows from a column; None if none can.

    `parts`: the measurements from which the column is computed. Ids are counted once in each group,
    so for these only `max_groups` matters. It matters only if there are more groups.
    """
    unit, groups = query.unit, bounded_groups(query)
    counted = {part.aggregate.counted_kind for part in parts}
    if unit.id is None or query.contributions_of is not None:
        return None  # each privacy unit has one row
    if counted == {IDS} and groups is not None and groups <= unit.most_groups:
        return None
    most = unit.most_groups if groups is None else min(unit.most_groups, groups)
    total = unit.max_rows if unit.limits_all_rows(most) else None
    has_others = total is not None and (
        unit.max_rows_per_group < total or unit.limits_groups(UNKNOWN if groups is None else groups)
    )
    stated = set(LIMITS if total is None or has_others else ())
    if counted == {IDS}:
        stated = {"max_groups"}
    return CuttingLimits(
        groups=most,
        rows=unit.most_rows_per_group,
        counted=counted.pop() if len(counted) == 1 and len(parts) == 1 else "",
        total=total,
        clipped_sum=parts[0].aggregate.clipped_sum if len(parts) == 1 else None,
        has_others=has_others,
        chosen=not stated.isdisjoint(query.chosen_limits),
    )


def bounded_groups(query: Query) -> int | None:
    """Return the number of groups to which `max_groups` applies; None for private keys."""
    if query.finest is not None:
        return query.finest.size
    return None if query.private else query.cells  # the number of selected keys is a result


def measured_value_text(query: Query, measurement: Measurement) -> str:
    """Return a text on what a measurement counts or sums, and whether limits leave out rows."""
    return measurement.aggregate.description + (
        ", after contribution limits" if cutting_limits(query, [measurement]) else ""
    )


def contribution_limits_text(query: Query) -> str:
    """Return a text on the rows within contribution limits; empty if each row is a privacy unit.

    The number of rows that are left out depends on the data, so the text does not contain it.
    Whether rows may be left out, and why, follows from the limits and the number of groups.
    """
    if not query.unit.contribution_limits_text:
        return ""
    if query.contributions_of is not None:
        of = query.contributions_of
        return (
            f"those of privacy units: for each '{query.unit.id}' with rows that count in "
            f"'{of.query.name}', {of.value_text}, before contribution limits"
        )
    groups = f"{_finest_groups_text(query)}{_left_out_rows_text(query)}{_choice_text(query)}"
    return f"{query.unit.contribution_limits_text}. {groups}"


def _choice_text(query: Query) -> str:
    """Return a sentence on the limits that are chosen privately; empty if there are none."""
    limits = " and ".join(f"`{limit}`" for limit in query.chosen_limits)
    return f". The release chooses {limits} privately, for a part of its budget" if limits else ""


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
    """Return a sentence on the rows that limits may leave out, in all or in a group."""
    most, rows = query.unit.max_groups, query.unit.max_rows_per_group
    cells, total = bounded_groups(query), query.unit.max_rows
    each = "" if cells == 1 else f" in each of the {cells or 0:,} groups"
    if query.finest is None and cutting_limits(query, query.measurements) is None:
        return f"Privacy units are counted, each once{each}, so the limits leave out none"
    if total is not None and not query.unit.limits_groups(UNKNOWN if cells is None else cells):
        above = "" if rows >= total else f", and rows above {rows:,} per group,"
        return f"Rows above {total:,} in all groups together{above} are left out at random"
    if cells is not None and cells <= most:
        people = any(part.aggregate.counted_kind == IDS for part in query.measurements)
        but = "; counts of privacy units stay the same" if people else ""
        return f"Rows above {rows:,} per privacy unit{each} are left out{but}"
    keys = read_keys(query)
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
    if query.contributions_of is not None:
        return counted_rows_text(query.contributions_of.query)
    keys = [key.column for key in read_keys(query) if query.private or key.leaves_out_rows]
    conditions = []
    if query.predicate is not None:
        conditions.append("that meet the condition")
    if query.unit.id is not None:
        conditions.append(f"that have an id '{query.unit.id}'")
    if query.join is not None and query.join.by_unit:
        other = query.join.declared.table.name
        conditions.append(f"whose privacy unit has rows in '{other}'")
    if query.join is not None and query.join.matched_only:
        conditions.append(f"that have a match in '{query.join.declared.table.name}'")
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


@dataclass(frozen=True, slots=True)
class DifferentlyBounded:
    """Tables that count different rows of a person because contribution limits apply to each.

    `source`: the name of the table that they read. `id`: the id of the privacy unit. `tables`: the
    names of the tables.
    """

    source: str
    id: str
    tables: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return sentences on why the tables need not add up, and what to change."""
        return (
            f"{table_range_text(self.tables)}: these tables need not add up, even without their "
            "noise, except for consistent tables of one query among themselves. "
            f"The contribution limits of '{self.source}' apply to the rows and groups of each "
            f"table separately, so a '{self.id}' may lose rows in one table and not in another. To "
            "apply them once for all tables, declare the tables as `marginals` of one query with "
            "`consistent`, or as queries of one `family`; for a condition (`where`), use a key "
            "instead"
        )


def differently_bounded(queries: Sequence[Query]) -> list[DifferentlyBounded]:
    """Return the tables of each source that readers may add up, but that count different rows.

    These are tables of one source and one privacy unit that count or sum the same, with different
    groups or different conditions, where contribution limits may leave out rows.
    """
    by_source: dict[tuple[str, str | None], list[Query]] = {}
    for query in queries:
        by_source.setdefault((query.declared.table.name, query.unit.id), []).append(query)
    found = []
    for (source, unit), readers in by_source.items():
        tables = _tables_with_other_rows(readers)
        if tables:
            found.append(DifferentlyBounded(source, str(unit), tables))
    return found


@dataclass(frozen=True, slots=True)
class DifferentlyCounted:
    """Tables of which some leave out rows because of their keys, and others count these rows.

    `source`: the name of the table that they read. `tables`: the names of the tables. `without`:
    columns, and the tables that leave out rows without a declared value of these columns.
    """

    source: str
    tables: tuple[str, ...]
    without: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def words(self) -> str:
        """Return sentences on why the tables have other totals, and what to change."""
        left_out = " ".join(
            f"{table_range_text(tables)}: rows without a declared value of "
            + ", ".join(f"'{key}'" for key in keys)
            + " are left out."
            for keys, tables in self.without
        )
        return (
            f"{table_range_text(self.tables)}: the totals of these tables of '{self.source}' may "
            f"differ, even without noise. {left_out} To count such rows in all tables, declare "
            "`others` and `fill`, or `unallocated: true`, at the key"
        )


def differently_counted(queries: Sequence[Query]) -> list[DifferentlyCounted]:
    """Return the tables of each source that readers may add up, and that leave out other rows.

    These are tables that count or sum the same rows, but for rows without a declared value of a
    key. Contribution limits are no reason to be among them, nor are conditions.
    """
    groups: dict[tuple[object, ...], list[Query]] = {}
    for query in queries:
        if query.private is None:
            predicate = None if query.predicate is None else query.predicate.sql
            joined = None if query.join is None else (query.join.declared.table.name, query.join.on)
            by = query.declared.table.name, query.unit.id, predicate, joined
            groups.setdefault(by, []).append(query)
    found = []
    for readers in groups.values():
        sets = {query.name: keys_that_leave_out_rows(query) for query in readers}
        names = _tables_with_other_sets(readers, sets)
        differ = [key for key in dict.fromkeys(k for name in names for k in sets[name])
                  if not all(key in sets[name] for name in names)]  # fmt: skip
        if names:
            source = readers[0].declared.table.name
            without: dict[tuple[str, ...], list[str]] = {}
            for key in differ:
                without.setdefault(tuple(t for t in names if key in sets[t]), []).append(key)
            by_keys = tuple((tuple(keys), tables) for tables, keys in without.items())
            found.append(DifferentlyCounted(source, names, by_keys))
    return found


def keys_that_leave_out_rows(query: Query) -> tuple[str, ...]:
    """Return the keys of a table, or of its family, whose missing or other values are dropped."""
    return tuple(key.column for key in read_keys(query) if key.leaves_out_rows)


def _tables_with_other_sets(
    queries: Sequence[Query], sets: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the tables that sum the same as another table, with another set of keys."""
    by_column: dict[str | None, list[str]] = {}
    for query in queries:
        added = {
            part.name for one in query.columns if one.form in (SUM, MEASURED) for part in one.parts
        }
        for measurement in query.measurements:
            if (
                measurement.name in added
                and measurement.is_vector
                and not measurement.aggregate.is_distinct
            ):
                by_column.setdefault(measurement.aggregate.column, []).append(query.name)
    names = {
        name
        for tables in by_column.values()
        if len({frozenset(sets[table]) for table in tables}) > 1
        for name in tables
    }
    return tuple(query.name for query in queries if query.name in names)


def _tables_with_other_rows(queries: Sequence[Query]) -> tuple[str, ...]:
    """Return the tables that sum the same as another table of one source, over other rows.

    Published sums and counts of one column are compared, and counts of rows. Means and other
    quotients, and numbers of distinct ids or values, are left out: they do not add up in any case.
    """
    boundings: dict[str | None, set[object]] = {}
    tables: dict[str | None, list[str]] = {}
    cut: set[str | None] = set()
    for query in queries:
        bounding = _bounding_of(query)
        for measurement in query.measurements:
            if measurement.is_vector and not measurement.aggregate.is_distinct:
                column = measurement.aggregate.column
                boundings.setdefault(column, set()).add(bounding)
                tables.setdefault(column, []).append(query.name)
                if cutting_limits(query, [measurement]) is not None:
                    cut.add(column)
    names = {name for column in cut if len(boundings[column]) > 1 for name in tables[column]}
    return tuple(query.name for query in queries if query.name in names)


def _bounding_of(query: Query) -> tuple[object, ...]:
    """Return what determines which rows contribution limits keep; equal for equal rows.

    The selection of rows depends on a person's id, groups and rows. So it is the same in two
    queries with the same keys, condition, joined rows and limits. Limits that have not been chosen
    yet may become equal or not.
    """
    keys = frozenset(key.column for key in read_keys(query))
    read = keys.union(() if query.predicate is None else query.predicate.columns)
    joined = None
    if query.join is not None and (query.join.by_unit or query.join.matched_only):
        joined = query.join.declared.table.name, query.join.on
    return (
        query.unit,
        query.open_choices,
        keys,
        None if query.predicate is None else query.predicate.sql,
        frozenset((name, query.formulas[name].sql) for name in read if name in query.formulas),
        joined,
    )
