"""Generate tables of synthetic people, with values that meet conditions and match joins."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import exact
from dprelease.query.expressions.computed_order import with_input_columns
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import ColumnGenerator, Draws, Literals, parent_areas_first
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    expression_of,
    is_stored,
)
from dprelease.schema.load import Declaration
from dprelease.schema.rehearsal_spec import RehearsalSpec
from dprelease.schema.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


ROWS = 100_000
"""The number of rows of a synthetic table that declares neither rows nor units."""

MOST_GROUPS, MOST_ROWS_PER_GROUP = 10_000, 1_000
"""The maximum numbers of groups, and of rows per group, of a synthetic unit.

Only units that exceed their contribution limits may be larger. Real units rarely reach higher
limits, and a unit that is as large as its table would leave no rows for other units.
"""

DIGITS = 10
"""The number of digits in ids that are texts; it is one for all tables, so that ids match."""

FEWEST_UNITS = 16
"""The minimum number of units of a table with a requested number of rows, if they fit."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A request for a synthetic table: its number of rows or of units, and its key columns."""

    rows: int | None
    units: int | None
    keys: frozenset[str]


def table_request(table: Table, rows: int | None, keys: Iterable[str]) -> TableRequest:
    """Return the request for a synthetic table.

    Its size is `rows`, or by default the declared number of rows, the declared number of units, or
    else `ROWS` rows. `keys` are the key columns.
    """
    rows = rows or table.rehearsal.rows
    if rows is None and table.size is None:
        rows = ROWS
    units = None if rows is not None else table.size
    return TableRequest(rows, units, frozenset(keys))


def generate_people(
    table: Table, request: TableRequest, draws: Draws, literals: Literals
) -> pa.Table:
    """Return a table of synthetic people with every column that its source stores."""
    import pyarrow as pa

    unit_groups = _draw_unit_groups(table, request, draws)
    group_of_row = np.repeat(np.arange(len(unit_groups.unit)), unit_groups.rows)
    generator = ColumnGenerator(draws, table.rehearsal, literals)
    arrays: dict[str, pa.Array] = {}
    for name in parent_areas_first(table.columns):
        column = table.columns[name]
        if not is_stored(column):
            continue
        if name == table.privacy_unit.id:
            arrays[name] = _unit_ids(column, unit_groups.unit[group_of_row])
        elif _is_constant_in_groups(column) or name in request.keys:
            values_of_groups = generator.values(name, column, len(unit_groups.unit))
            one_row_per_group = len(unit_groups.unit) == len(group_of_row)
            arrays[name] = (
                values_of_groups
                if one_row_per_group
                else values_of_groups.take(pa.array(group_of_row))
            )
        else:
            arrays[name] = generator.values(name, column, len(group_of_row))
    if not arrays:
        return pa.table({"dp_row": pa.nulls(len(group_of_row))})
    return pa.table({name: arrays[name] for name in table.columns if name in arrays})


@dataclass(frozen=True, slots=True)
class _UnitGroups:
    """The groups in which units have rows: the unit and the number of rows of each group."""

    unit: Integers
    rows: Integers


def _draw_unit_groups(table: Table, request: TableRequest, draws: Draws) -> _UnitGroups:
    """Return random groups of all units of a table."""
    unit = table.unit
    if unit.id is None:
        n = request.rows or request.units or ROWS
        return _UnitGroups(np.arange(n), np.ones(n, dtype=np.int64))
    if request.rows is None:
        return _draw_groups(table, draws, 0, request.units or ROWS)
    return _groups_with_total_rows(table, request.rows, draws)


def _groups_with_total_rows(table: Table, rows: int, draws: Draws) -> _UnitGroups:
    """Return random groups with `rows` rows in total; the last groups get only remaining rows."""
    parts, units, rows_so_far = list[_UnitGroups](), 0, 0
    new_units = FEWEST_UNITS
    while rows_so_far < rows:
        part = _draw_groups(table, draws, units, new_units, most=max(1, rows // FEWEST_UNITS))
        units, rows_so_far = units + new_units, rows_so_far + int(part.rows.sum())
        parts.append(part)
        new_units = max(FEWEST_UNITS, min(rows, (rows - rows_so_far) * units // rows_so_far + 1))
    unit = np.concatenate([part.unit for part in parts])
    sizes = np.concatenate([part.rows for part in parts])
    before = np.cumsum(sizes) - sizes
    within_rows = before < rows
    sizes = np.minimum(sizes, rows - before)[within_rows]
    return _UnitGroups(unit[within_rows], sizes)


def _draw_groups(table: Table, draws: Draws, first: int, n: int, most: int = 2**31) -> _UnitGroups:
    """Return random groups of n units, numbered from `first`, with about `most` rows at most."""
    unit, share_above = table.unit, float(table.rehearsal.beyond)
    groups = draws.log_uniform_integers(
        n, *_capped_limit(unit.max_groups, min(most, MOST_GROUPS), share_above)
    )
    unit_of_group = np.repeat(np.arange(first, first + n), groups)
    room = min(max(1, most // max(1, int(groups.mean()))), MOST_ROWS_PER_GROUP)
    rows = draws.log_uniform_integers(
        len(unit_of_group), *_capped_limit(unit.max_rows_per_group, room, share_above)
    )
    if unit.max_rows is not None:  # units above this limit have more groups than rows that count
        rows = np.minimum(rows, np.maximum(1, unit.max_rows // np.repeat(groups, groups)))
    return _UnitGroups(unit_of_group, rows)


def _capped_limit(bound: int, most: int, share_above: float) -> tuple[int, float]:
    """Return a contribution limit, but at most `most`, and the share of units above the limit."""
    return (bound, share_above) if bound <= most else (most, 0.0)


def _is_constant_in_groups(column: Column) -> bool:
    """Return whether all rows of a group get the same value, as is usual in key columns."""
    return isinstance(column, CategoryColumn | BooleanColumn | DateColumn)


def _unit_ids(column: Column, numbers: Integers) -> pa.Array:
    """Return the ids of units; the id of a unit depends on its number, and not on the table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, IntegerColumn):
        return pa.array(numbers + max(1, column.lower or 1))
    texts = pc.utf8_lpad(pa.array(numbers + 1).cast(pa.string()), DIGITS, "0")
    return pc.binary_join_element_wise("person ", texts, "")


def generate_public_table(
    table: Table,
    keys: Mapping[tuple[str, ...], list[tuple[object, ...]]],
    draws: Draws,
    literals: Literals,
) -> pa.Table:
    """Return a synthetic public table, in which each key of `keys` has one row.

    `keys` has the values for which joins find rows, by the columns that a join compares.
    """
    import pyarrow as pa

    rows = max([1, *(len(values) for values in keys.values())])
    spec = table.rehearsal.model_copy(update={"missing": RehearsalSpec().missing * 0})
    generator = ColumnGenerator(draws, spec, literals)
    stored = [name for name in parent_areas_first(table.columns) if is_stored(table.columns[name])]
    arrays = {name: generator.values(name, table.columns[name], rows) for name in stored}
    filled_columns = set[str]()
    for columns, values in keys.items():
        if filled_columns & {*columns}:
            continue
        filled_columns |= {*columns}
        for i, name in enumerate(columns):
            cells_of_column = [value[i] for value in values] + [None] * (rows - len(values))
            arrays[name] = pa.array(cells_of_column, arrays[name].type)
    return pa.table({name: arrays[name] for name in table.columns if name in arrays})


YEAR, YEARS = "year", re.compile("[1-9][0-9]{3}")
"""The SQL function, and the form of the years that it is compared with: `year(day) = 2014`."""

MOST_KEYS = 100_000
"""The maximum number of keys of a synthetic public table."""


def literals_in(declaration: Declaration) -> Literals:
    """Return the literals in all conditions and expressions of a release.

    Columns of texts and columns without bounds get values from these literals, so that some
    synthetic rows satisfy the conditions.
    """
    expressions = list(_expressions(declaration))
    if not expressions:
        return Literals()
    from sqlglot import Dialect  # the SQL parser loads slowly

    texts, numbers, days = dict[str, None](), [], []
    for text in expressions:
        tokens = Dialect.get_or_raise("duckdb").tokenize(text)
        of_years = any(token.text.casefold() == YEAR for token in tokens)
        for token in tokens:
            if of_years and token.text.isascii() and YEARS.fullmatch(token.text):
                days += [date(int(token.text), 7, 1)]
            if token.token_type.name == "STRING":
                day = _parse_day(token.text)
                days += [] if day is None else [day]
                texts[token.text] = None
            elif token.token_type.name == "NUMBER":
                with suppress(ValueError):  # for a number in a form that declarations can't have
                    numbers.append(exact(token.text))
    return Literals(tuple(texts), tuple(numbers), tuple(days))


def _expressions(declaration: Declaration) -> Iterator[str]:
    """Yield all conditions and expressions of a release, in SQL."""
    for query in declaration.spec.queries.values():
        if query.where is not None:
            yield query.where
        yield from (text for text in map(expression_of, query.derive.values()) if text)
    for declared in declaration.tables.values():
        yield from (text for text in map(expression_of, declared.table.columns.values()) if text)


def _parse_day(text: str) -> date | None:
    """Return the day at the beginning of a text; None if there is none."""
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


def key_columns_of(queries: Sequence[Query], table: str) -> frozenset[str]:
    """Return the key columns of a table, and the columns from which keys are computed."""
    found = set[str]()
    for query in queries:
        if query.declared.table.name != table:
            continue
        columns = query.table.columns
        names = [key.read_from for key in query.keys.keys]
        names += [] if query.private is None else [name for name, _ in query.private.columns]
        names = [c.cut if isinstance(c := columns[n], CutColumn) else n for n in names]
        found |= {*with_input_columns(columns, query.formulas, names)}
    return frozenset(found)


def join_key_values(
    queries: Sequence[Query], people: Mapping[str, pa.Table], table: str
) -> dict[tuple[str, ...], list[tuple[object, ...]]]:
    """Return the keys for which joins with a public table find rows, by the compared columns.

    `people` has the synthetic tables about people, from which the joins take some keys.
    """
    found: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
    for query in queries:
        join = query.join
        if join is None or join.by_unit or join.declared.table.name != table:
            continue
        right = tuple(name for _, name in join.on)
        if right in found:
            continue
        table_rows = people.get(query.declared.table.name)
        values = [
            list(
                _comparison_values(
                    query.table.columns[left], table_rows, left, join.declared.table.columns[name]
                )
            )
            for left, name in join.on
        ]
        found[right] = list(itertools.islice(itertools.product(*values), MOST_KEYS))
    return found


def _comparison_values(
    left: Column, table_rows: pa.Table | None, name: str, right: Column
) -> Iterator[object]:
    """Yield the values that one compared column can have, as the joined table stores them.

    `left` is the column `name` of the table about people, and `right` that of the joined table.
    """
    if isinstance(left, CategoryColumn | CutColumn):
        yield from left.values or ()
    elif isinstance(left, BooleanColumn):
        yield from (False, True)
    elif table_rows is not None and name in table_rows.column_names:
        yield from (v for v in table_rows.column(name).unique().to_pylist() if v is not None)
    elif isinstance(right, IntegerColumn | DateColumn):
        low, high = right.lower, right.upper
        if isinstance(low, int) and isinstance(high, int):
            yield from range(low, min(high, low + MOST_KEYS) + 1)
