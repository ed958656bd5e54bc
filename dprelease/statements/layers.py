"""SQL of a query's typed rows: stored columns in declared types, then joined and computed columns.

A join with a public table can't multiply rows: a key that occurs twice in the public table matches
no row, even if the keys were found to be unique before. A missing key also matches no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dprelease.query import quoting
from dprelease.query.expressions.computed_order import computation_levels, with_input_columns
from dprelease.query.expressions.used_columns import Formulas
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query
from dprelease.query.view import Join, comparison_type
from dprelease.schema.columns import CategoryColumn, Column, CutColumn, IntegerColumn, is_stored
from dprelease.schema.table import Table
from dprelease.statements.allocated_areas import allocating_columns
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.categories import EXACT
from dprelease.statements.values.lossy_types import may_exceed_exact_floats
from dprelease.statements.values.physical import DECLARED_AS, SMALL_INTEGERS, base_type

SOURCE, JOINED = "dp_source", "dp_joined"
"""The relation of the queried table, and the relation of the table joined to it."""


StoredTypes = Mapping[str, str]
"""The engine's types of stored columns, by column name."""


@dataclass(frozen=True, slots=True)
class NeededColumns:
    """The columns that a query reads from its own source and from the joined table."""

    own: tuple[str, ...]
    joined: tuple[str, ...]
    before: list[list[str]]
    """Levels of the computed columns that the join compares."""
    after: list[list[str]]
    """Levels of the other computed columns."""


def columns_by_stage(query: Query) -> NeededColumns:
    """Return the columns that a query reads, in the order in which they can be computed."""
    columns, join = query.table.columns, query.join
    names = list(query.predicate.columns) if query.predicate else []
    names += [_name_of_source_column(columns, name) for name in _key_names(query)]
    names += [
        _name_of_source_column(columns, name)
        for m in query.measurements
        for name in m.aggregate.reads
    ]
    names += [outer for name in grouped_names(query) for outer in allocating_columns(columns, name)]
    if query.unit.id is not None:
        names.append(query.unit.id)
    compared = [] if join is None else [left for left, _ in join.on]
    before = computation_levels(columns, query.formulas, compared)
    early = {name for level in before for name in level}
    needed = with_input_columns(columns, query.formulas, [*names, *compared])
    levels = computation_levels(columns, query.formulas, needed)
    after = [[name for name in level if name not in early] for level in levels]
    from_join = set() if join is None else set(join.columns)
    own = tuple(n for n in needed if n not in from_join and is_stored(columns[n]))
    joined = tuple(n for n in needed if n in from_join and not isinstance(columns[n], CutColumn))
    return NeededColumns(own, joined, before, [level for level in after if level])


def _key_names(query: Query) -> list[str]:
    """Return the columns by which a query groups its rows."""
    if query.private is not None:
        return [name for name, _ in query.private.columns]
    return [key.column for key in (query.finest or query.keys).keys]


def grouped_names(query: Query) -> list[str]:
    """Return the columns of keys and of measured values, whose codes are assigned to cells."""
    reads = [name for m in query.measurements for name in m.aggregate.reads]
    return [*_key_names(query), *reads]


def _name_of_source_column(columns: Mapping[str, Column], name: str) -> str:
    """Return the column from which a key or a measurement is read: for a cut, its number."""
    column = columns[name]
    return column.cut if isinstance(column, CutColumn) else name


def needed_columns(query: Query) -> tuple[str, ...]:
    """Return the stored columns of the source that the query reads, in schema order."""
    return columns_by_stage(query).own


def needed_joined_columns(query: Query) -> tuple[str, ...]:
    """Return the stored columns of the joined table that the query reads, in schema order."""
    if query.join is None:
        return ()
    table, formulas = query.join.declared.table, query.join.formulas
    needed = with_input_columns(
        table.columns, formulas, _joined_columns(query.join, columns_by_stage(query))
    )
    return tuple(name for name in needed if is_stored(table.columns[name]))


def _joined_columns(join: Join, needed: NeededColumns) -> tuple[str, ...]:
    """Return the columns that the query reads from the joined table, join keys first."""
    return tuple(dict.fromkeys([*(right for _, right in join.on), *needed.joined]))


def assumed_types(query: Query) -> dict[str, str]:
    """Return the column types that a plan assumes for the source without its data."""
    return _expected_types(query.table, needed_columns(query))


def assumed_joined_types(query: Query) -> dict[str, str]:
    """Return the column types that a plan assumes for the joined table without its data."""
    return (
        {}
        if query.join is None
        else _expected_types(query.join.declared.table, needed_joined_columns(query))
    )


def _expected_types(table: Table, names: Iterable[str]) -> dict[str, str]:
    """Return the type of each column if it is stored as declared."""
    return {name: DECLARED_AS[getattr(table.columns[name], "type", "")] for name in names}


def physical_types(query: Query, own: StoredTypes, joined: StoredTypes) -> dict[str, str]:
    """Return the engine's type of each column of the query, by name."""
    types = dict(own)
    if query.join is not None:
        right = {**joined, **{name: f.physical for name, f in query.join.formulas.items()}}
        types |= {name: right[name] for name in query.join.columns if name in right}
    return types | {name: formula.physical for name, formula in query.formulas.items()}


def has_text_ids(query: Query) -> bool:
    """Return whether the ids of privacy units are texts."""
    unit = query.unit.id
    return unit is not None and not isinstance(query.table.columns[unit], IntegerColumn)


def grouping_columns(query: Query) -> frozenset[str]:
    """Return the stored category columns that the query uses only for grouping.

    All rows with one stored value lie in one cell, so that the statement needs to convert the value
    only once per group.
    """
    if query.private is not None:
        return frozenset()
    columns, join = query.table.columns, query.join
    needed = columns_by_stage(query)
    keys = set(_key_names(query))
    alone = {n for n in needed.own if n in keys and isinstance(columns[n], CategoryColumn)}
    read = list(query.predicate.columns) if query.predicate else []
    read += [_name_of_source_column(columns, name) for name in keys - alone]
    read += [
        _name_of_source_column(columns, name)
        for m in query.measurements
        for name in m.aggregate.reads
    ]
    read += [] if join is None else [left for left, _ in join.on]
    for name in keys:
        outer = allocating_columns(columns, name)
        read += [name, *outer] if outer else []
    return frozenset(alone.difference(with_input_columns(columns, query.formulas, read)))


def typed_rows_sql(
    query: Query,
    own: StoredTypes,
    joined: StoredTypes,
    as_stored: frozenset[str] = frozenset(),
    present: str = "",
) -> str:
    """Return a SELECT of the query's rows before its predicate, with every column typed.

    The columns `as_stored` keep their stored types. `present` is a condition on stored columns
    that rows must meet, or empty.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    needed, columns, formulas = columns_by_stage(query), query.table.columns, query.formulas
    rows = _stored_columns_sql(SOURCE, needed.own, query.table, own, as_stored)
    rows = f"{rows} WHERE {present}" if present else rows
    rows = _computed_columns_sql(rows, needed.before, columns, formulas)
    if query.join is not None:
        rows = _join_sql(query, query.join, rows, needed, joined, own)
    return _computed_columns_sql(rows, needed.after, columns, formulas)


def _stored_columns_sql(
    relation: str,
    names: Sequence[str],
    table: Table,
    physical: StoredTypes,
    as_stored: frozenset[str] = frozenset(),
) -> str:
    """Return the SELECT that reads these columns of a relation with the declared types."""
    parts = []
    for name in names:
        quoted = quoting.identifier(name)
        value = typed_value_sql(name, table.columns[name], physical[name], table.time_zone)
        parts.append(quoted if name in as_stored or value == quoted else f"{value} AS {quoted}")
    return f"SELECT {', '.join(parts) or '1 AS one'} FROM {relation}"


def _computed_columns_sql(
    rows: str, levels: Sequence[Sequence[str]], columns: Mapping[str, Column], formulas: Formulas
) -> str:
    """Return SQL of rows with computed columns: each level is a SELECT around the level before."""
    for level in levels:
        values, typings = [], []
        for name in level:
            column, quoted = columns[name], quoting.identifier(name)
            if isinstance(column, CutColumn):
                values.append(f"{cut_case_sql(column, as_label=True)} AS {quoted}")
                continue
            values.append(f"{formulas[name].sql} AS {quoted}")
            value = typed_value_sql(name, column, formulas[name].physical)
            if value != quoted:
                # Typing reads a value by its name, perhaps several times: it needs a SELECT of its
                # own.
                typings.append(f"{value} AS {quoted}")
        rows = f"SELECT *, {', '.join(values)} FROM ({rows}) typed"
        if typings:
            rows = f"SELECT * REPLACE ({', '.join(typings)}) FROM ({rows}) typed"
    return rows


def cut_case_sql(column: CutColumn, *, as_label: bool, key: Key | None = None) -> str:
    """Return SQL of the interval of a cut in which a number lies, as a code or as a label."""
    value = typed_column_sql(column.cut)
    edges = [
        quoting.double(edge) if edge.denominator > 1 else quoting.integer(edge.numerator)
        for edge in column.edges
    ]
    cells = [quoting.text(v) if as_label else str(i) for i, v in enumerate(column.values)]
    inside = cells[: len(column.intervals)]
    positions = {"drop": "NULL"} | dict(zip(column.values, cells, strict=True))
    null, other = positions[column.fill], positions[column.others]
    if key is None and not as_label:
        null = other = "NULL"
    below = "<" if column.closed == "left" else "<="
    arms = " ".join(
        f"WHEN {value} {below} {edge} THEN {cell}"
        for edge, cell in zip(edges[1:], inside, strict=True)
    )
    return (
        f"CASE WHEN {value} IS NULL THEN {null} WHEN {value} {below} {edges[0]} THEN {other} "
        f"{arms} ELSE {other} END"
    )


def typed_column_sql(name: str) -> str:
    """Return SQL of a column of `typed`, qualified because key tables have columns as well."""
    return f"typed.{quoting.identifier(name)}"


def _join_sql(
    query: Query,
    join: Join,
    rows: str,
    needed: NeededColumns,
    joined: StoredTypes,
    own: StoredTypes,
) -> str:
    """Return a SELECT of the rows, joined with the columns of the joined table."""
    right = joined_rows_sql(query, joined)
    joined_columns = "".join(f", joined.{quoting.identifier(name)}" for name in needed.joined)
    types = physical_types(query, own, {})
    pairs = [
        _equality_sql(
            query.table.columns[left], types.get(left, ""), joined.get(name, ""), left, name
        )
        for left, name in join.on
    ]
    how = "JOIN" if join.by_unit or join.matched_only else "LEFT JOIN"
    on = " AND ".join(pairs)
    return f"SELECT typed.*{joined_columns} FROM ({rows}) typed {how} ({right}) joined ON {on}"


def joined_rows_sql(query: Query, joined: StoredTypes) -> str:
    """Return a SELECT of the typed rows of the joined table that a row of the query can match."""
    join = query.join
    if join is None:
        raise TypeError("the query has no join")
    names = _joined_columns(join, columns_by_stage(query))
    table, keys = join.declared.table, _key_identifiers_sql(join)
    rows = _joined_table_sql(table, join.formulas, names, joined)
    known = " AND ".join(
        [f"{key} IS NOT NULL" for key in keys] + _matching_key_conditions(query, join)
    )
    column_list = ", ".join(quoting.identifier(name) for name in names)
    # Also if the keys were found to be unique: a duplicate that came since would multiply the rows
    # of people, beyond their limits.
    once = "" if join.by_unit else f" QUALIFY count(*) OVER (PARTITION BY {', '.join(keys)}) = 1"
    return f"SELECT {column_list} FROM ({rows}) typed WHERE {known}{once}"


def duplicate_keys_sql(query: Query, joined: StoredTypes) -> str | None:
    """Return a SELECT that returns a row if the key of a joined public table is not unique.

    Returns None if the query joins no public table.
    """
    join = query.join
    if join is None or join.by_unit:
        return None
    keys = _key_identifiers_sql(join)
    names = [right for _, right in join.on]
    rows = _joined_table_sql(join.declared.table, join.formulas, names, joined)
    known = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    by = ", ".join(keys)
    return f"SELECT 1 FROM ({rows}) typed WHERE {known} GROUP BY {by} HAVING count(*) > 1 LIMIT 1"


def _matching_key_conditions(query: Query, join: Join) -> list[str]:
    """Return SQL conditions that keep only the keys that match independently of stored types.

    The text of an undeclared code, and that of an integer above 2^53, depend on the stored type of
    the query's own column, so such keys never match.
    """
    conditions: list[str] = []
    for left, right in () if join.by_unit else join.on:
        column, key = query.table.columns[left], quoting.identifier(right)
        if isinstance(column, CategoryColumn):
            conditions.append(f"{key} IN ({', '.join(map(quoting.text, column.values or ()))})")
        elif isinstance(column, IntegerColumn) and not may_exceed_exact_floats(column):
            conditions.append(f"{key} BETWEEN {quoting.integer(1 - EXACT)} AND {EXACT - 1}")
    return conditions


def _key_identifiers_sql(join: Join) -> list[str]:
    """Return the quoted columns of the joined table that are compared."""
    return [quoting.identifier(right) for _, right in join.on]


def _joined_table_sql(
    table: Table, formulas: Formulas, names: Sequence[str], physical: StoredTypes
) -> str:
    """Return a SELECT of a joined table's columns, typed and computed by its own schema."""
    needed = with_input_columns(table.columns, formulas, names)
    stored = [name for name in needed if is_stored(table.columns[name])]
    rows = _stored_columns_sql(JOINED, stored, table, physical)
    return _computed_columns_sql(
        rows, computation_levels(table.columns, formulas, names), table.columns, formulas
    )


def public_table_sql(
    table: Table, formulas: Formulas, names: Sequence[str], physical: StoredTypes
) -> str:
    """Return a SELECT of some columns of a public table, typed and computed by its schema."""
    needed = with_input_columns(table.columns, formulas, names)
    stored = [name for name in needed if is_stored(table.columns[name])]
    levels = computation_levels(table.columns, formulas, names)
    rows = _stored_columns_sql(SOURCE, stored, table, physical)
    rows = _computed_columns_sql(rows, levels, table.columns, formulas)
    return f"SELECT {', '.join(map(quoting.identifier, names))} FROM ({rows}) typed"


def _equality_sql(column: Column, left_type: str, right_type: str, left: str, right: str) -> str:
    """Return the SQL condition that two typed columns are equal.

    Integers are compared as integers, because two different integers may be the same float.
    """
    sides = [typed_column_sql(left), f"joined.{quoting.identifier(right)}"]
    small = {base_type(left_type), base_type(right_type)} <= SMALL_INTEGERS
    if comparison_type(column) == "whole numbers" and not small:
        sides = [f"CAST({side} AS HUGEINT)" for side in sides]
    return " = ".join(sides)
