"""Compose units with the largest changes from rows that count, at and above their limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dprelease.auditing.neighbours.counting_rows import Group, Hit
from dprelease.auditing.neighbours.situations import NOBODY, Row, Rows, Situation
from dprelease.auditing.neighbours.stacks import NO_ID
from dprelease.privacy.unit import Neighbours, PrivacyUnit
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn

MOST_GROUPS, MOST_ROWS = 40, 40
"""The maximum number of groups of a unit that are tried, and of rows in each group."""

PARTS = 1000
"""The number of equal parts into which the largest change by a row is divided."""

BEYOND = 3
"""The number of groups or rows by which a unit exceeds its contribution limits."""

ALONE = 3
"""The number of units that are also tried without other units, so that groups are empty without
them."""

WIDE = 3
"""The number of other units with more rows, in more groups, than the contribution limits allow."""

FEW = 12
"""The maximum number of rows of which all pairs are tried, if each row is a unit."""

SPELLED = ("{}", "0{}", "+{}", "{}.0", " {}", "{}e0")
"""The formats in which one id is written if ids are numbers that are stored as texts."""


def worst_units(group: Group, query: Query, hits: Sequence[Hit]) -> Iterator[Situation]:
    """Yield situations in which a unit changes a measurement most, the largest change first."""
    if not hits:
        return
    crowd = _other_units(query.unit, _sorted_by_size(hits))
    replaced = query.neighbours is Neighbours.REPLACE
    if query.unit.id is None:
        rows = _row_situations(hits, crowd, replaced=replaced)
        yield from itertools.islice(rows, 1)
        yield Situation("only the least row", _smallest_hit(hits).rows)
        yield from rows
        for hit in _sorted_by_size(hits)[:ALONE]:
            yield Situation("a row alone in its group", hit.rows)
        if replaced:
            yield from _single_column_changes(group, "a row", _sorted_by_size(hits)[0].rows, crowd)
        return
    units = list(_extreme_units(query.unit, hits))
    (first, most), *rest = units
    yield Situation(first, most, NOBODY, crowd)
    yield Situation("a privacy unit with only the least row", _smallest_hit(hits).rows)
    for description, unit in rest:
        yield Situation(description, unit, NOBODY, crowd)
    for description, unit in units[:ALONE]:
        yield Situation(f"{description}, alone in its groups", unit)
    description, unit = units[0]
    yield Situation(f"{description}, its id spelled in several ways", unit, NOBODY, crowd, SPELLED)
    yield Situation("rows without an id", _without_id(unit), NOBODY, crowd)
    if replaced:
        for (description, one), (_, other) in itertools.permutations(units, 2):
            yield Situation(f"{description}, replaced by another such unit", one, other, crowd)
        for description, unit in units[:2]:
            yield from _single_column_changes(group, description, unit, crowd)


def joint_hits(hits: Mapping[tuple[str, str], Sequence[Hit]], query: Query) -> list[Hit]:
    """Return the rows that count in a query, ranked by their joint change of all measurements.

    A row's change of a measurement is taken as a share of the largest change by any row.
    """
    each = [hits.get((query.name, one.name), ()) for one in query.measurements]
    moved: dict[tuple[int, int], tuple[Hit, float]] = {}
    for hits_of_cell in each:
        most = max((abs(hit.value) for hit in hits_of_cell), default=0) or 1
        for hit in hits_of_cell:
            place = id(hit.rows), hit.cell
            _, before = moved.get(place, (hit, 0.0))
            moved[place] = hit, before + abs(hit.value) / most
    return [replace(hit, value=round(PARTS * part)) for hit, part in moved.values()]


def _single_column_changes(
    group: Group, description: str, unit: Rows, crowd: tuple[Rows, ...]
) -> Iterator[Situation]:
    """Yield situations in which a unit is replaced by one that differs in a single column."""
    for table, rows in unit.items():
        for name in list(rows[0]):
            values = group.extremes(table, name).usual
            for first in (0, len(values) // 2):
                ring = itertools.cycle((*values[first:], *values[:first]))
                other = [{**row, name: value} for row, value in zip(rows, ring, strict=False)]
                detailed = f"{description}, replaced by one that differs in one column"
                yield Situation(detailed, unit, {**unit, table: other}, crowd)
            siblings = _sibling_areas(group, table, name)
            if siblings:
                other = [{**row, name: siblings.get(row[name], row[name])} for row in rows]
                detailed = f"{description}, replaced by one beside it in the same area"
                yield Situation(detailed, unit, {**unit, table: other}, crowd)


def _sibling_areas(group: Group, table: str, name: str) -> dict[object, object]:
    """Return for each area another area with the same parent; empty for other columns."""
    column = group.tables[table].columns[name]
    found: dict[object, object] = {}
    if isinstance(column, CategoryColumn):
        lying = list(zip(column.values or (), column.above, strict=False))
        for (one, above), (other, too) in zip(lying, [*lying[1:], *lying[:1]], strict=True):
            if above == too:
                found |= {one: other}
                found.setdefault(other, one)
    return found


def _other_units(unit: PrivacyUnit, ordered: Sequence[Hit]) -> tuple[Rows, ...]:
    """Return other units with the smallest and the largest values of each group, equally many.

    One unit changes the scores on both sides of a quantile most if there are other units. Some
    other units have more rows than their limits allow: the selection among their rows must not
    depend on the order of rows.
    """
    if unit.id is None:
        same = [hit for hit in ordered if hit.cell == ordered[0].cell]
        return tuple(
            _single_row_each(hit.rows) for hit in (same[0], same[-1]) for _ in range(FEW // 2)
        )
    groups, rows = min(unit.max_groups, 2), min(unit.max_rows_per_group, 4)
    largest = _hits_by_cell(ordered)
    least = {
        cell: hits_of_cell
        for cell, hits_of_cell in _hits_by_cell(ordered[::-1]).items()
        if cell in largest
    }
    ends = (
        _composed_unit(largest, groups, rows),
        _composed_unit({c: least[c] for c in largest}, groups, rows),
    )
    mixed = {
        cell: (*hits_of_cell[:rows], *least[cell][:rows]) for cell, hits_of_cell in largest.items()
    }
    wide = _composed_unit(mixed, groups + BEYOND, rows + BEYOND)
    return (*(end for end in ends for _ in range(FEW // 3)), *(wide for _ in range(WIDE)))


def _row_situations(
    hits: Sequence[Hit], crowd: tuple[Rows, ...], *, replaced: bool
) -> Iterator[Situation]:
    ordered = _sorted_by_size(hits)
    ends = (*ordered[:FEW], *ordered[-FEW:])
    for hit in ends:
        yield Situation("a row with a value at or beyond a bound", hit.rows, NOBODY, crowd)
    if replaced:
        same = [hit for hit in ordered if hit.cell == ordered[0].cell]
        for one, other in itertools.permutations((*same[:4], *same[-4:], *ends[:4], *ends[-4:]), 2):
            description = "in the same group" if one.cell == other.cell else "in another group"
            yield Situation(f"a row replaced by one {description}", one.rows, other.rows, crowd)


def _extreme_units(unit: PrivacyUnit, hits: Sequence[Hit]) -> Iterator[tuple[str, Rows]]:
    """Yield units below, at and above their contribution limits, each with a description."""
    groups, rows = min(unit.max_groups, MOST_GROUPS), min(unit.max_rows_per_group, MOST_ROWS)
    largest, least = (
        _hits_by_cell(_sorted_by_size(hits)),
        _hits_by_cell(_sorted_by_size(hits)[::-1]),
    )
    largest_by_cell = dict(sorted(largest.items()))
    places = (("the largest values", largest), ("the least values", least))
    for description, cells in places:
        yield f"a unit with {description} in most groups", _composed_unit(cells, groups, rows)
        more = _composed_unit(cells, groups + BEYOND, rows + BEYOND)
        yield f"a unit with {description} in more groups and rows than count", more
    yield "a unit in groups beside each other", _composed_unit(largest_by_cell, groups, rows)
    last = dict(reversed(largest_by_cell.items()))
    yield "a unit in the last groups", _composed_unit(last, groups + BEYOND, rows)
    yield "a unit with all rows in one group", _composed_unit(largest, 1, (rows + BEYOND) * 2)
    mixed = {cell: (*hits_of_cell, *least[cell]) for cell, hits_of_cell in largest.items()}
    yield (
        "a unit with the largest and the least values",
        _composed_unit(mixed, groups, rows + BEYOND),
    )


def _sorted_by_size(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.value)


def _smallest_hit(hits: Sequence[Hit]) -> Hit:
    """Return the row with the smallest change of the measurement, other than 0."""
    return min(hits, key=lambda hit: abs(hit.value) or math.inf)


def _hits_by_cell(hits: Sequence[Hit]) -> dict[int, tuple[Hit, ...]]:
    cells: dict[int, tuple[Hit, ...]] = {}
    for hit in hits:
        cells[hit.cell] = (*cells.get(hit.cell, ()), hit)[:MOST_ROWS]
    return cells


def _composed_unit(cells: dict[int, tuple[Hit, ...]], groups: int, rows: int) -> Rows:
    """Return the rows of a unit: in each of some cells its first hits, repeated if too few."""
    rows_by_table: dict[str, list[dict[str, object]]] = {}
    for hits_of_cell in itertools.islice(cells.values(), groups):
        best = [hit for hit in hits_of_cell if hit.value == hits_of_cell[0].value] or hits_of_cell
        several = itertools.cycle(
            best if len(hits_of_cell) < 2 or rows < 2 else (*best, *hits_of_cell)
        )
        for hit in itertools.islice(several, rows):
            for table, own in hit.rows.items():
                rows_by_table.setdefault(table, []).extend(dict(row) for row in own)
    return rows_by_table


def _single_row_each(rows: Rows) -> Rows:
    return {table: [*own] for table, own in rows.items()}


def _without_id(unit: Rows) -> Rows:
    return {table: [{**row, NO_ID: True} for row in own] for table, own in unit.items()}


def random_units(group: Group, queries: Sequence[Query], n: int) -> Iterator[Situation]:
    """Yield situations with random rows, some of which have odd values."""
    by_id = any(query.unit.id is not None for query in queries)
    replaced = any(query.neighbours is Neighbours.REPLACE for query in queries)
    rows = iter(group.invent_units(n * (16 if by_id else 4)))
    sizes = group.draws.whole(2 * n, 1, 7).tolist() if by_id else [1] * (2 * n)
    for i in range(n):
        one = _joint_rows(itertools.islice(rows, sizes[2 * i]))
        other = _joint_rows(itertools.islice(rows, sizes[2 * i + 1])) if replaced else NOBODY
        yield Situation("a unit at random", one, other, tuple(itertools.islice(rows, 1)))


def _joint_rows(several: Iterator[Rows]) -> Rows:
    rows_by_table: dict[str, list[Row]] = {}
    for rows in several:
        for table, own in rows.items():
            rows_by_table.setdefault(table, []).extend(own)
    return rows_by_table
