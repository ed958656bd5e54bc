"""Generate tables of synthetic people: units, the groups of each unit, and rows in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.rehearsal.column_values import Inventing, Literals, nested_last
from dprelease.rehearsal.draws import Draws
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    is_stored,
)
from dprelease.schema.rehearsal_form import RehearsalSpec
from dprelease.schema.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 100_000
"""The number of rows of a table that declares no number."""

MOST_GROUPS, MOST_ROWS_PER_GROUP = 10_000, 1_000
"""The maximum numbers of groups and of rows per group of a synthetic unit, except for units above
their limits. Higher limits are rarely reached, and a unit as large as the table would leave no rows
for other units."""

DIGITS = 10
"""The number of digits in a text id, which is equal in all tables so that their units match."""

FEWEST_UNITS = 16
"""The minimum number of units of a table with a requested number of rows, if they fit."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The number of rows or units of a table, and its key columns."""

    rows: int | None
    units: int | None
    keys: frozenset[str]


def wanted_of(table: Table, rows: int | None, keys: Iterable[str]) -> TableRequest:
    """Return the requested size of a synthetic table; by default the declared size, or ROWS."""
    rows = rows or table.rehearsal.rows
    if rows is None and table.size is None:
        rows = ROWS
    units = None if rows is not None else table.size
    return TableRequest(rows, units, frozenset(keys))


def invented_people(
    table: Table, request: TableRequest, draws: Draws, literals: Literals
) -> pa.Table:
    """Return a table of synthetic people with every column that its source stores."""
    import pyarrow as pa

    places = _laid_out(table, request, draws)
    of_row = np.repeat(np.arange(len(places.unit)), places.rows)
    inventing = Inventing(draws, table.rehearsal, literals)
    arrays: dict[str, pa.Array] = {}
    for name in nested_last(table.columns):
        column = table.columns[name]
        if not is_stored(column):
            continue
        if name == table.privacy_unit.id:
            arrays[name] = _ids(column, places.unit[of_row])
        elif _is_of_the_group(column) or name in request.keys:
            of_group = inventing.values(name, column, len(places.unit))
            alone = len(places.unit) == len(of_row)
            arrays[name] = of_group if alone else of_group.take(pa.array(of_row))
        else:
            arrays[name] = inventing.values(name, column, len(of_row))
    if not arrays:
        return pa.table({"dp_row": pa.nulls(len(of_row))})
    return pa.table({name: arrays[name] for name in table.columns if name in arrays})


@dataclass(frozen=True, slots=True)
class _Places:
    """The groups in which units have rows: for each group, its unit and its number of rows."""

    unit: Integers
    rows: Integers


def _laid_out(table: Table, request: TableRequest, draws: Draws) -> _Places:
    """Return the groups of all units."""
    unit = table.unit
    if unit.id is None:
        n = request.rows or request.units or ROWS
        return _Places(np.arange(n), np.ones(n, dtype=np.int64))
    if request.rows is None:
        return _groups(table, draws, 0, request.units or ROWS)
    return _fill_units(table, request.rows, draws)


def _fill_units(table: Table, rows: int, draws: Draws) -> _Places:
    """Return units with this number of rows in total; the last unit gets the remaining rows."""
    parts, units, rows_so_far = list[_Places](), 0, 0
    ask = FEWEST_UNITS
    while rows_so_far < rows:
        part = _groups(table, draws, units, ask, most=max(1, rows // FEWEST_UNITS))
        units, rows_so_far = units + ask, rows_so_far + int(part.rows.sum())
        parts.append(part)
        ask = max(FEWEST_UNITS, min(rows, (rows - rows_so_far) * units // rows_so_far + 1))
    unit = np.concatenate([part.unit for part in parts])
    sizes = np.concatenate([part.rows for part in parts])
    before = np.cumsum(sizes) - sizes
    within_rows = before < rows
    sizes = np.minimum(sizes, rows - before)[within_rows]
    return _Places(unit[within_rows], sizes)


def _groups(table: Table, draws: Draws, first: int, n: int, most: int = 2**31) -> _Places:
    """Return the groups of n units from `first` on, none larger than `most` rows."""
    unit, beyond = table.unit, float(table.rehearsal.beyond)
    groups = draws.numbers_up_to(n, *_cap_bound(unit.max_groups, min(most, MOST_GROUPS), beyond))
    of_unit = np.repeat(np.arange(first, first + n), groups)
    room = min(max(1, most // max(1, int(groups.mean()))), MOST_ROWS_PER_GROUP)
    rows = draws.numbers_up_to(len(of_unit), *_cap_bound(unit.max_rows_per_group, room, beyond))
    return _Places(of_unit, rows)


def _cap_bound(bound: int, most: int, beyond: float) -> tuple[int, float]:
    """Return a limit and the share of units above it; a limit above `most` is replaced by it."""
    return (bound, beyond) if bound <= most else (most, 0.0)


def _is_of_the_group(column: Column) -> bool:
    """Return whether all rows of a group have the same value, as in most key columns."""
    return isinstance(column, CategoryColumn | BooleanColumn | DateColumn)


def _ids(column: Column, numbers: Integers) -> pa.Array:
    """Return the id of each unit, which depends only on its number, not on the table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, IntegerColumn):
        return pa.array(numbers + max(1, column.lower or 1))
    texts = pc.utf8_lpad(pa.array(numbers + 1).cast(pa.string()), DIGITS, "0")
    return pc.binary_join_element_wise("person ", texts, "")


def invented_public(
    table: Table,
    keys: Mapping[tuple[str, ...], list[tuple[object, ...]]],
    draws: Draws,
    literals: Literals,
) -> pa.Table:
    """Return a synthetic public table with each key once, followed by other values.

    `keys` has, by the columns that a join compares, the values that the join can match.
    """
    import pyarrow as pa

    rows = max([1, *(len(values) for values in keys.values())])
    spec = table.rehearsal.model_copy(update={"missing": RehearsalSpec().missing * 0})
    inventing = Inventing(draws, spec, literals)
    stored = [name for name in nested_last(table.columns) if is_stored(table.columns[name])]
    arrays = {name: inventing.values(name, table.columns[name], rows) for name in stored}
    taken = set[str]()
    for columns, values in keys.items():
        if taken & {*columns}:
            continue
        taken |= {*columns}
        for i, name in enumerate(columns):
            cells_of_column = [value[i] for value in values] + [None] * (rows - len(values))
            arrays[name] = pa.array(cells_of_column, arrays[name].type)
    return pa.table({name: arrays[name] for name in table.columns if name in arrays})
