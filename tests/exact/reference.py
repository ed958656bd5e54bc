"""The semantics of a query again, row by row in plain Python, slowly and without any SQL."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.count_distinct import CountDistinct
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.replicate_difference import ReplicateDifference
from dprelease.query.aggregates.sum import Sum
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query
from dprelease.schema.columns import CutColumn

Row = dict[str, Any]
Predicate = Callable[[Row], bool]


def typed(query: Query, name: str, row: Row) -> Any:
    """Return the value of a column as its declared kind; None where it is missing."""
    return value_of(query.table.columns[name], row[name])


def value_of(column: Any, value: Any) -> Any:
    """Return a stored value as the column's kind; None if it is missing, or a code for that."""
    found = _uncoded_value(column, value)
    if found is None or column.type == "boolean":
        return found
    if column.type in ("date", "timestamp"):
        return None if found in map(str, column.missing) else found
    if column.type in ("category", "text"):
        return None if found in column.missing else found
    finite = math.isfinite(found)
    return None if finite and float(found) in map(float, column.missing) else found


def _uncoded_value(column: Any, value: Any) -> Any:
    """Return a stored value as the column's kind, without a look at codes."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    kind = column.type
    if kind == "integer":
        if isinstance(value, float):
            inside = math.isfinite(value) and abs(value) < 2**127
            return int(value) if inside and value == int(value) else None
        return int(value)
    if kind == "number":
        return value
    if kind == "category" and value == "" and "" not in column.values:
        return None
    return value if kind == "boolean" else str(value)


def left_join(query: Query, rows: list[Row], public: list[Row]) -> list[Row]:
    """Return each row with the columns of the one public row that has its key, or with nothing.

    If only matched rows count, rows without such a public row are left out.
    """
    assert query.join is not None
    right = query.join.declared.table
    found = []
    for row in rows:
        key = [typed(query, left, row) for left, _ in query.join.on]
        matches = [
            other
            for other in public
            if None not in key
            and key == [value_of(right.columns[name], other[name]) for _, name in query.join.on]
        ]
        match = matches[0] if len(matches) == 1 else {}
        if query.join.matched_only and not match:
            continue
        found.append({**row, **{name: match.get(name) for name in query.join.columns}})
    return found


def unit_join(query: Query, rows: list[Row], others: list[Row]) -> list[Row]:
    """Return all pairs of rows with the same id."""
    assert query.join is not None
    assert query.unit.id is not None
    name = query.unit.id
    column = query.table.columns[name]
    return [
        {**row, **{n: other[n] for n in query.join.columns if n in other}}
        for row in rows
        for other in others
        if value_of(column, row[name]) is not None
        and value_of(column, row[name]) == value_of(column, other[name])
    ]


def cut_cell(query: Query, name: str, row: Row) -> int | None:
    """Return the position of a cut's cell."""
    column = query.table.columns[name]
    value = typed(query, column.cut, row)
    cells = {label: i for i, label in enumerate(column.values)}
    if value is None:
        return cells.get(column.fill)
    for i, (low, high) in enumerate(zip(column.edges, column.edges[1:], strict=False)):
        inside = low <= value < high if column.closed == "left" else low < value <= high
        if inside:
            return i
    return cells.get(column.others)


def is_present(query: Query, name: str, row: Row) -> bool:
    """Return whether a row has a value of a column: of a cut, a band."""
    if isinstance(query.table.columns[name], CutColumn):
        return cut_cell(query, name, row) is not None
    return typed(query, name, row) is not None


def assigned(query: Query, name: str, row: Row) -> Any:
    """Return a row's value, or the unallocated part of the smallest area that the row names."""
    columns = query.table.columns
    value, end, column = typed(query, name, row), "", columns[name]
    if not getattr(column, "unallocated", False) or not column.within:
        return value
    while value not in column.values:
        if not column.within:
            return None
        end, name = end + "_X", column.within[0]
        column, value = columns[name], typed(query, name, row)
    return value + end


def key_cell(query: Query, key: Key, row: Row) -> int | None:
    """Return the position of a row in one key; None drops it."""
    if isinstance(query.table.columns[key.column], CutColumn):
        return cut_cell(query, key.column, row)
    value = assigned(query, key.column, row)
    if value is None:
        return key.nulls
    values = list(key.values)
    return values.index(value) if value in values else key.others


def cell(query: Query, row: Row) -> int | None:
    """Return the cell number of a row; None drops it."""
    total = 0
    for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
        code = key_cell(query, key, row)
        if code is None:
            return None
        total += code * stride
    return total


def half_away(x: float) -> int:
    """Return the whole number nearest to a float, halves away from zero."""
    return math.floor(abs(Fraction(x)) + Fraction(1, 2)) * (-1 if x < 0 else 1)


def steps(query: Query, aggregate: Sum, row: Row) -> int | None:
    """Return a value as clamped lattice steps; None drops it."""
    column = query.table.columns[aggregate.column]
    value = typed(query, aggregate.column, row)
    if column.type == "boolean":
        return column.fill_value if value is None else int(value)
    if column.type == "date":
        inside = value is not None and str(column.lower) <= value <= str(column.upper)
        text = value if inside else column.fill
        return None if text == "drop" else (date.fromisoformat(text) - date(1970, 1, 1)).days
    if column.type == "timestamp":
        inside = value is not None and str(column.lower) <= value[:19] <= str(column.upper)
        since = datetime.fromisoformat(value) - datetime(1970, 1, 1) if inside else None
        return None if since is None else since // timedelta(seconds=1)
    if value is None:
        if column.fill_value is None:
            return None
        value = column.fill_value
        sign = -1 if value < 0 else 1
        found = sign * math.floor(abs(value) / aggregate.step + Fraction(1, 2))
        return min(max(found, aggregate.lower), aggregate.upper)
    if isinstance(value, int) and aggregate.step.denominator == 1:
        inside = min(max(value, math.ceil(column.lower)), math.floor(column.upper))
        step, low = aggregate.step.numerator, aggregate.lower
        return (inside - low * step + step // 2) // step + low
    inside = min(max(float(value), float(column.lower)), float(column.upper))
    if aggregate.step.numerator == 1:
        scaled = inside * float(aggregate.step.denominator)
    else:
        scaled = inside / float(aggregate.step)
    return min(max(half_away(scaled), aggregate.lower), aggregate.upper)


def difference(query: Query, aggregate: ReplicateDifference, row: Row) -> int | None:
    """Return what a row adds to a sum of differences between two weights, times a value."""
    found = [steps(query, one, row) for one in aggregate.factors]
    if any(one is None for one in found):
        return None
    replicate, weight, *value = (
        Fraction(number) * one.step for number, one in zip(found, aggregate.factors, strict=True)
    )
    apart = replicate - weight
    if aggregate.limit is not None:
        most = aggregate.limit * aggregate.difference_step
        apart = min(max(apart, -most), most)
    return math.floor(apart * (value[0] if value else 1) / aggregate.step + Fraction(1, 2))


def moment(query: Query, aggregate: Sum | ProductSum | Quantile, row: Row) -> int | None:
    """Return what a row adds to a sum of values or products, or which candidate it stands for."""
    if isinstance(aggregate, Quantile):
        lattice = Sum(aggregate.column, aggregate.lower, aggregate.upper, aggregate.base)
        found = steps(query, lattice, row)
        return None if found is None else (found - aggregate.lower) // aggregate.stride
    if any(typed(query, name, row) is None for name in aggregate.beside):
        return None
    if isinstance(aggregate, Sum):
        found = steps(query, aggregate, row)
        return None if found is None else found - aggregate.center
    sides = [(one, steps(query, one, row)) for one in (aggregate.left, aggregate.right)]
    product = Fraction(1, aggregate.coarse)
    for one, found in sides:
        if found is None:
            return None
        product *= found - one.center
    return math.floor(product + Fraction(1, 2)) - aggregate.offset


def scores(
    query: Query | None, aggregate: Quantile | Frequent, held: list[int], shift: int | None = None
) -> list[int]:
    """Return the score of every candidate in a cell whose rows have these candidates.

    `shift`: by how many points the rank of an end lies above that of its quantile. An end has one
    more candidate, below or above all values.
    """
    if isinstance(aggregate, Frequent):
        return [held.count(candidate) for candidate in range(aggregate.values)]
    shift = 3 * aggregate.side if shift is None else shift
    a, b, n = aggregate.at.numerator, aggregate.at.denominator, len(held)
    rank, found = a * n + shift, []
    ranks = [
        (sum(x < candidate for x in held), sum(x <= candidate for x in held))
        for candidate in range(aggregate.candidates)
    ]
    outside = {0: [], -1: [(-(10**9), 0)], 1: [(n, 10**9)]}
    for first, last in [*ranks, *outside[aggregate.side]]:
        points = 0  # how far all values and their number have to move the rank
        while not _holds(b * first - points, b * last + points, rank, aggregate.side):
            points += 1
        found.append(-points)
    return found


def values_of(query: Query, row: Row) -> list[int | None]:
    """Return what one row adds to each measurement that reads a column."""
    found: list[int | None] = []
    for measurement in query.measurements:
        aggregate = measurement.aggregate
        if isinstance(aggregate, Sum | ProductSum | Quantile):
            found.append(moment(query, aggregate, row))
        elif isinstance(aggregate, ReplicateDifference):
            found.append(difference(query, aggregate, row))
        elif isinstance(aggregate, Count) and aggregate.column is not None:
            names = (aggregate.column, *aggregate.beside)
            found.append(1 if all(is_present(query, name, row) for name in names) else None)
        elif isinstance(aggregate, Frequent) or getattr(aggregate, "values", None) is not None:
            from dprelease.query.grouping.group_keys import key_of

            key = key_of(aggregate.column, query.table.columns[aggregate.column])
            found.append(key_cell(query, key, row))
        else:
            found.append(None)
    return found


def number(part: Any) -> int:
    """Return a part of the documented hash."""
    if isinstance(part, str):
        return int(hashlib.md5(part.encode()).hexdigest()[:15], 16) % (2**31 - 1)
    return int(part) % (2**31 - 1)


def digest(parts: list[Any]) -> int:
    """Return the documented hash of bounding."""
    found = 0
    for part in parts:
        found += number(part)
        for constant, factor in (
            (715827883, 742938285),
            (1431655765, 950706376),
            (858993459, 1226874159),
        ):
            found = (found ^ constant) * factor % (2**31 - 1)
    return found


def missing_first(values: list[int | None]) -> list[tuple[bool, int]]:
    """Return a key by which missing values come first."""
    return [(value is not None, value or 0) for value in values]


def reads_column(query: Query, j: int) -> bool:
    """Return whether a measurement reads a value of its own."""
    aggregate = query.measurements[j].aggregate
    return aggregate.column is not None and getattr(aggregate, "values", 0) is not None


def bounded(
    query: Query, rows: list[tuple[Any, int, list[int | None]]]
) -> list[tuple[Any, int, list[int | None]]]:
    """Return the rows that are kept: cells by hash, then rows by the hash of their place, twice."""
    unit = query.unit
    if unit.id is None:
        return rows
    by_person: dict[Any, dict[int, list[list[int | None]]]] = defaultdict(lambda: defaultdict(list))
    for person, at, values in rows:
        by_person[person][at].append(values)
    read = [j for j in range(len(query.measurements)) if reads_column(query, j)]
    kept = []
    for person, cells in by_person.items():
        chosen = sorted(cells, key=lambda at: (digest([person, at]), at))
        most = unit.max_groups * unit.max_rows_per_group
        if unit.max_rows is None or unit.max_groups < unit.max_rows or most <= unit.max_rows:
            chosen = chosen[: unit.max_groups]
        within = []
        for at in chosen:
            held = [([v[j] for j in read], v) for v in cells[at]]
            held.sort(key=lambda both: missing_first(both[0]))
            order = sorted(range(len(held)), key=lambda place: (digest([person, at, place]), place))
            within += [(i, at, held[i][1]) for i in order[: unit.max_rows_per_group]]
        within.sort(key=lambda row: (digest([person, row[1], row[0]]), row[1], row[0]))
        kept += [(person, at, values) for _, at, values in within[: unit.max_rows]]
    return kept


def _holds(first: int, last: int, rank: int, side: int) -> bool:
    """Return whether a candidate of these ranks holds a rank; of an end, only the outer one does."""
    return first + (side > 0) <= rank <= last - (side < 0)


def clipped(
    query: Query, j: int, kept: list[tuple[Any, int, list[int | None]]]
) -> list[tuple[Any, int, list[int | None]]]:
    """Return the kept rows; one row for each person and cell where their sum is limited."""
    limit = query.measurements[j].aggregate.most_of_unit
    if limit is None:
        return kept
    sums: dict[tuple[Any, int], int] = defaultdict(int)
    for person, at, values in kept:
        sums[person, at] += values[j] or 0
    within = {both: min(max(total, -limit), limit) for both, total in sums.items()}
    return [(person, at, [total] * (j + 1)) for (person, at), total in within.items()]


def reference(
    query: Query, table: list[Row], predicate: Predicate = lambda _row: True
) -> dict[str, list[Any]]:
    """Return every vector of a query over a list of rows."""
    rows = []
    for row in table:
        at = cell(query, row) if predicate(row) else None
        person = None if query.unit.id is None else typed(query, query.unit.id, row)
        if at is not None and (query.unit.id is None or person is not None):
            rows.append((person, at, values_of(query, row)))
    kept = bounded(query, rows)
    found = {}
    for j, measurement in enumerate(query.measurements):
        vector = [0] * query.keys.size
        if isinstance(measurement.aggregate, Quantile | Frequent):
            found[measurement.name] = [
                scores(
                    query,
                    measurement.aggregate,
                    [values[j] for _, at, values in kept if at == i and values[j] is not None],
                )
                for i in range(query.keys.size)
            ]
            continue
        distinct: dict[int, set[Any]] = defaultdict(set)
        for person, at, values in clipped(query, j, kept):
            aggregate = measurement.aggregate
            if isinstance(aggregate, CountDistinct):
                item = person if aggregate.values is None else values[j]
                if item is not None:
                    distinct[at].add(item)
            elif isinstance(aggregate, Count) and aggregate.column is None:
                vector[at] += 1
            else:
                vector[at] += values[j] or 0
        for at, items in distinct.items():
            vector[at] = len(items)
        found[measurement.name] = vector
    return found
