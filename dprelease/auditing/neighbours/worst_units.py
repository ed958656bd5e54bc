"""Compose units that change measurements most from counted rows, at and above their limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dprelease.auditing.neighbours.counting_rows import CountedRows, QueryGroup
from dprelease.auditing.neighbours.situations import NO_ROWS, Row, Rows, Situation
from dprelease.auditing.neighbours.stacks import NO_ID
from dprelease.privacy.unit import Neighbours, PrivacyUnit
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn

MOST_GROUPS, MOST_ROWS = 40, 40
"""The maximum numbers of groups, and of rows in a group, of a unit within its limits."""

SHARE_PARTS = 1000
"""The number of equal parts in which joint changes are expressed."""

EXCESS = 3
"""The number of groups or rows by which a unit exceeds its contribution limits."""

TRIED_ALONE = 3
"""The number of units that are also tried without other units, so that their groups would be empty
without them."""

UNITS_ABOVE_LIMITS = 3
"""The number of other units that have more rows, in more groups, than their limits allow."""

MOST_ROWS_IN_PAIRS = 12
"""The maximum number of rows at each end that are tried, if each row is a unit."""

ID_FORMATS = ("{}", "0{}", "+{}", "{}.0", " {}", "{}e0")
"""The formats in which one id is written if ids are numbers that are stored as texts."""


def worst_situations(
    group: QueryGroup, query: Query, counted: Sequence[CountedRows]
) -> Iterator[Situation]:
    """Yield situations in which a unit changes a measurement most, with the largest change first.

    `counted` are the rows that the measurement counts.
    """
    if not counted:
        return
    other_units = _other_units(query.unit, _sort_by_value(counted))
    replaced = query.neighbours is Neighbours.REPLACE
    if query.unit.id is None:
        rows = _row_situations(counted, other_units, replaced=replaced)
        yield from itertools.islice(rows, 1)
        yield Situation("only the least row", _smallest_counted(counted).rows)
        yield from rows
        for counted_rows in _sort_by_value(counted)[:TRIED_ALONE]:
            yield Situation("a row alone in its group", counted_rows.rows)
        if replaced:
            yield from _single_column_changes(
                group, "a row", _sort_by_value(counted)[0].rows, other_units
            )
        return
    units = list(_extreme_units(query.unit, counted))
    (first, most), *rest = units
    yield Situation(first, most, NO_ROWS, other_units)
    yield Situation("a privacy unit with only the least row", _smallest_counted(counted).rows)
    for description, unit in rest:
        yield Situation(description, unit, NO_ROWS, other_units)
    for description, unit in units[:TRIED_ALONE]:
        yield Situation(f"{description}, alone in its groups", unit)
    description, unit = units[0]
    yield Situation(
        f"{description}, its id spelled in several ways", unit, NO_ROWS, other_units, ID_FORMATS
    )
    yield Situation("rows without an id", _rows_without_id(unit), NO_ROWS, other_units)
    if replaced:
        for (description, one), (_, other) in itertools.permutations(units, 2):
            yield Situation(
                f"{description}, replaced by another such unit", one, other, other_units
            )
        for description, unit in units[:2]:
            yield from _single_column_changes(group, description, unit, other_units)


def jointly_counted_rows(
    counted: Mapping[tuple[str, str], Sequence[CountedRows]], query: Query
) -> list[CountedRows]:
    """Return the rows that a query counts, with their joint change of all measurements as value.

    The joint change is the sum of the changes of all measurements, each as a share of the largest
    change of the measurement by any row.
    """
    each = [counted.get((query.name, one.name), ()) for one in query.measurements]
    joint_changes: dict[tuple[int, int], tuple[CountedRows, float]] = {}
    for counted_in_cell in each:
        most = max((abs(counted_rows.value) for counted_rows in counted_in_cell), default=0) or 1
        for counted_rows in counted_in_cell:
            row_and_cell = id(counted_rows.rows), counted_rows.cell
            _, before = joint_changes.get(row_and_cell, (counted_rows, 0.0))
            joint_changes[row_and_cell] = counted_rows, before + abs(counted_rows.value) / most
    return [
        replace(counted_rows, value=round(SHARE_PARTS * part))
        for counted_rows, part in joint_changes.values()
    ]


def _single_column_changes(
    group: QueryGroup, description: str, unit: Rows, other_units: tuple[Rows, ...]
) -> Iterator[Situation]:
    """Yield situations in which a unit is replaced by a unit that differs in one column only."""
    for table, rows in unit.items():
        for name in list(rows[0]):
            values = group.values_to_try(table, name).usual
            for first in (0, len(values) // 2):
                rotated_values = itertools.cycle((*values[first:], *values[:first]))
                other = [
                    {**row, name: value} for row, value in zip(rows, rotated_values, strict=False)
                ]
                detailed = f"{description}, replaced by one that differs in one column"
                yield Situation(detailed, unit, {**unit, table: other}, other_units)
            siblings = _sibling_areas(group, table, name)
            if siblings:
                other = [{**row, name: siblings.get(row[name], row[name])} for row in rows]
                detailed = f"{description}, replaced by one beside it in the same area"
                yield Situation(detailed, unit, {**unit, table: other}, other_units)


def _sibling_areas(group: QueryGroup, table: str, name: str) -> dict[object, object]:
    """Return another area with the same parent for each area; empty for columns without areas."""
    column = group.tables[table].columns[name]
    found: dict[object, object] = {}
    if isinstance(column, CategoryColumn):
        values_with_parents = list(zip(column.values or (), column.parent_areas, strict=False))
        for (one, above), (other, too) in zip(
            values_with_parents, [*values_with_parents[1:], *values_with_parents[:1]], strict=True
        ):
            if above == too:
                found |= {one: other}
                found.setdefault(other, one)
    return found


def _other_units(unit: PrivacyUnit, ordered: Sequence[CountedRows]) -> tuple[Rows, ...]:
    """Return other units: equally many with the smallest and with the largest values of groups.

    A unit changes the scores on both sides of a quantile most if there are other units. Some of the
    other units have more rows than their limits allow, because the selection among these rows must
    not depend on the order of the rows.
    """
    if unit.id is None:
        same = [counted_rows for counted_rows in ordered if counted_rows.cell == ordered[0].cell]
        return tuple(
            _copy_rows(counted_rows.rows)
            for counted_rows in (same[0], same[-1])
            for _ in range(MOST_ROWS_IN_PAIRS // 2)
        )
    groups, rows = min(unit.most_groups, 2), min(unit.most_rows_per_group, 4)
    largest = _counted_by_cell(ordered)
    least = {
        cell: counted_in_cell
        for cell, counted_in_cell in _counted_by_cell(ordered[::-1]).items()
        if cell in largest
    }
    ends = (
        _composed_unit(largest, groups, rows),
        _composed_unit({c: least[c] for c in largest}, groups, rows),
    )
    mixed = {
        cell: (*counted_in_cell[:rows], *least[cell][:rows])
        for cell, counted_in_cell in largest.items()
    }
    wide = _composed_unit(mixed, groups + EXCESS, rows + EXCESS)
    return (
        *(end for end in ends for _ in range(MOST_ROWS_IN_PAIRS // 3)),
        *(wide for _ in range(UNITS_ABOVE_LIMITS)),
    )


def _row_situations(
    counted: Sequence[CountedRows], other_units: tuple[Rows, ...], *, replaced: bool
) -> Iterator[Situation]:
    """Yield situations that add, remove or replace a row, for rows with extreme values."""
    ordered = _sort_by_value(counted)
    ends = (*ordered[:MOST_ROWS_IN_PAIRS], *ordered[-MOST_ROWS_IN_PAIRS:])
    for counted_rows in ends:
        yield Situation(
            "a row with a value at or beyond a bound", counted_rows.rows, NO_ROWS, other_units
        )
    if replaced:
        same = [counted_rows for counted_rows in ordered if counted_rows.cell == ordered[0].cell]
        for one, other in itertools.permutations((*same[:4], *same[-4:], *ends[:4], *ends[-4:]), 2):
            description = "in the same group" if one.cell == other.cell else "in another group"
            yield Situation(
                f"a row replaced by one {description}", one.rows, other.rows, other_units
            )


def _extreme_units(unit: PrivacyUnit, counted: Sequence[CountedRows]) -> Iterator[tuple[str, Rows]]:
    """Yield the descriptions and rows of units below, at and above their contribution limits."""
    groups, rows = min(unit.most_groups, MOST_GROUPS), min(unit.most_rows_per_group, MOST_ROWS)
    groups = min(groups, max(1, unit.most_rows // rows))
    largest = _counted_by_cell(_sort_by_value(counted))
    least = _counted_by_cell(_sort_by_value(counted)[::-1])
    largest_by_cell = dict(sorted(largest.items()))
    places = (("the largest values", largest), ("the least values", least))
    for description, cells in places:
        yield f"a unit with {description} in most groups", _composed_unit(cells, groups, rows)
        more = _composed_unit(cells, groups + EXCESS, rows + EXCESS)
        yield f"a unit with {description} in more groups and rows than count", more
    yield "a unit in groups beside each other", _composed_unit(largest_by_cell, groups, rows)
    last = dict(reversed(largest_by_cell.items()))
    yield "a unit in the last groups", _composed_unit(last, groups + EXCESS, rows)
    yield "a unit with all rows in one group", _composed_unit(largest, 1, (rows + EXCESS) * 2)
    mixed = {cell: (*counted_in_cell, *least[cell]) for cell, counted_in_cell in largest.items()}
    yield (
        "a unit with the largest and the least values",
        _composed_unit(mixed, groups, rows + EXCESS),
    )


def _sort_by_value(counted: Sequence[CountedRows]) -> list[CountedRows]:
    """Return counted rows in descending order of their values."""
    return sorted(counted, key=lambda counted_rows: -counted_rows.value)


def _smallest_counted(counted: Sequence[CountedRows]) -> CountedRows:
    """Return the counted rows with the smallest change of the measurement, other than 0."""
    return min(counted, key=lambda counted_rows: abs(counted_rows.value) or math.inf)


def _counted_by_cell(counted: Sequence[CountedRows]) -> dict[int, tuple[CountedRows, ...]]:
    """Return the first counted rows of each cell."""
    cells: dict[int, tuple[CountedRows, ...]] = {}
    for counted_rows in counted:
        cells[counted_rows.cell] = (*cells.get(counted_rows.cell, ()), counted_rows)[:MOST_ROWS]
    return cells


def _composed_unit(cells: dict[int, tuple[CountedRows, ...]], groups: int, rows: int) -> Rows:
    """Return the rows of a unit with `rows` rows in each of the first `groups` cells.

    Counted rows of a cell are repeated if there are too few of them.
    """
    rows_by_table: dict[str, list[dict[str, object]]] = {}
    for counted_in_cell in itertools.islice(cells.values(), groups):
        best = [
            counted_rows
            for counted_rows in counted_in_cell
            if counted_rows.value == counted_in_cell[0].value
        ] or counted_in_cell
        several = itertools.cycle(
            best if len(counted_in_cell) < 2 or rows < 2 else (*best, *counted_in_cell)
        )
        for counted_rows in itertools.islice(several, rows):
            for table, own in counted_rows.rows.items():
                rows_by_table.setdefault(table, []).extend(dict(row) for row in own)
    return rows_by_table


def _copy_rows(rows: Rows) -> Rows:
    """Return a copy of the rows of a unit, with new lists of rows."""
    return {table: [*own] for table, own in rows.items()}


def _rows_without_id(unit: Rows) -> Rows:
    """Return the rows of a unit with missing ids."""
    return {table: [{**row, NO_ID: True} for row in own] for table, own in unit.items()}


def random_situations(group: QueryGroup, queries: Sequence[Query], n: int) -> Iterator[Situation]:
    """Yield n situations with random rows, some of which have odd values."""
    by_id = any(query.unit.id is not None for query in queries)
    replaced = any(query.neighbours is Neighbours.REPLACE for query in queries)
    rows = iter(group.invent_units(n * (16 if by_id else 4)))
    sizes = group.draws.integers(2 * n, 1, 7).tolist() if by_id else [1] * (2 * n)
    for i in range(n):
        one = _merge_rows(itertools.islice(rows, sizes[2 * i]))
        other = _merge_rows(itertools.islice(rows, sizes[2 * i + 1])) if replaced else NO_ROWS
        yield Situation("a unit at random", one, other, tuple(itertools.islice(rows, 1)))


def _merge_rows(several: Iterator[Rows]) -> Rows:
    """Return the rows of several units together, by table."""
    rows_by_table: dict[str, list[Row]] = {}
    for rows in several:
        for table, own in rows.items():
            rows_by_table.setdefault(table, []).extend(own)
    return rows_by_table
