"""Find rows that count, by running the queries of a release on many synthetic rows at once.

Conditions, expressions, joins and areas decide which rows count, and in which cell. This module
does not compute them itself. It tries usual values of each column, values at bounds, and odd
values.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from types import MappingProxyType

from dprelease.auditing.exact_pairs import Codes, FoundCells, Keys, found_in_stack, keys_in_stack
from dprelease.auditing.failures import answer_without_failures
from dprelease.auditing.neighbours.situations import Row, Rows, Situation
from dprelease.auditing.neighbours.stacks import stack, stacked_queries
from dprelease.auditing.neighbours.stored_values import AS_DECLARED
from dprelease.auditing.pairs import Tables
from dprelease.auditing.stage import EngineFailure, Stage
from dprelease.query.expressions.computed_order import closure
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import Literals
from dprelease.rehearsal.draws import Draws
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
    is_stored,
)
from dprelease.schema.table import Table

MANY_VALUES = 40
"""The maximum number of values that are tried from a long list: the ends, and some in between."""

UNDECLARED = "undeclared"
FIRST_DAY, LAST_DAY = date(2020, 1, 1), date(2029, 12, 31)


@dataclass(frozen=True, slots=True)
class Extremes:
    """The values to try in a column.

    `usual` are values of rows that may count; `odd` are missing, invalid and out-of-range values.
    """

    usual: tuple[object, ...]
    odd: tuple[object, ...]


def extremes_of(column: Column, literals: Literals) -> Extremes:
    """Return the values to try in a stored column, including literals from conditions."""
    match column:
        case CategoryColumn():
            texts = _values_across(column.values or ())
            return Extremes(texts, (None, "", UNDECLARED, " ", f"{texts[0]} "))
        case BooleanColumn():
            return Extremes((True, False), (None, 2, "maybe"))
        case IntegerColumn():
            return _integer_extremes(column, literals)
        case NumberColumn():
            return _number_extremes(column, literals)
        case DateColumn() | TimestampColumn():
            return _day_extremes(column, literals)
        case TextColumn():
            texts = tuple(dict.fromkeys((*literals.texts, *(f"text {i}" for i in range(6)))))
            return Extremes(texts, (None, "", " "))
    raise TypeError("a cut has no stored column")


def _values_across(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) <= MANY_VALUES:
        return tuple(values)
    stride = max(1, len(values) // (MANY_VALUES // 2))
    ends = (*values[: MANY_VALUES // 4], *values[-MANY_VALUES // 4 :])
    return tuple(dict.fromkeys((*ends, *values[::stride])))


def _integer_extremes(column: IntegerColumn, literals: Literals) -> Extremes:
    near = [int(number) + by for number in literals.numbers for by in (-1, 0, 1)]
    low, high = column.lower, column.upper
    if low is None or high is None:
        low, high = min([0, *near]), max([9, *near])
        return Extremes(
            tuple(dict.fromkeys((low, high, *near, 1, 2, 3))), (None, 10**15, -(10**15))
        )
    step, middle = column.step, (low + high) // 2
    inside = (low, high, middle, low + step // 2, high - step // 2, *near, 0, 1)
    usual = [value for value in inside if low <= value <= high]
    beyond = (low - 1, high + 1, -(2**63), 2**63 - 1, None, math.nan, math.inf, -math.inf, 0.5, "x")
    return Extremes(tuple(dict.fromkeys(usual)), beyond)


def _number_extremes(column: NumberColumn, literals: Literals) -> Extremes:
    near = [float(number) + by for number in literals.numbers for by in (-1.0, 0.0, 1.0)]
    lattice = column.lattice
    if lattice is None:
        return Extremes(tuple(dict.fromkeys((0.0, 1.0, *near))), (None, math.nan, math.inf, 1e308))
    low, high, step = float(column.lower or 0), float(column.upper or 0), float(lattice.step)
    inside = (low, high, (low + high) / 2, low + step / 2, high - step / 2, low + step, *near, 0.0)
    usual = [value for value in inside if low <= value <= high]
    odd = (
        None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1e308,
        low - step, high + step, "x",
    )  # fmt: skip
    return Extremes(tuple(dict.fromkeys(usual)), odd)


def _day_extremes(column: DateColumn | TimestampColumn, literals: Literals) -> Extremes:
    low, high = FIRST_DAY, LAST_DAY
    if isinstance(column, DateColumn) and column.lower is not None and column.upper is not None:
        low, high = column.lower, column.upper
    day = timedelta(days=1)
    near = [at + by for at in literals.days for by in (-day, timedelta(0), day)]
    days = list(dict.fromkeys((low, high, low + (high - low) // 2, *near)))
    odd: tuple[object, ...] = (None, date(1, 1, 1), date(9999, 12, 31), "x")
    if isinstance(column, DateColumn):
        return Extremes(tuple(days), odd)
    return Extremes(tuple(datetime(at.year, at.month, at.day, 12) for at in days), odd)


NO_KEYS: Keys = MappingProxyType({})

ROWS = 256
"""The number of rows with random values that are tried first."""

BASES = 12
"""The number of counting rows that are then tried with every value of the measured column."""

MOST_CELLS = 1 << 22
"""The maximum number of cells in all tables of a stack, which limits the number of its pairs."""

ODD = 0.15
"""The share of odd values."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The rows of one unit, the cell in which they count, and the value that they have there."""

    rows: Rows
    cell: int
    value: int


@dataclass(frozen=True)
class Group:
    """Queries over the same tables about people, and the values to try in their columns."""

    stage: Stage
    queries: tuple[Query, ...]
    tables: Mapping[str, Table]
    public: Tables
    literals: Literals
    draws: Draws
    known: dict[tuple[str, str], Extremes] = field(default_factory=dict)
    codes: Codes = field(default_factory=dict)
    failing: list[Situation] = field(default_factory=list)
    """Units on which the engine failed during the search; they are tried first later on."""

    @property
    def pairs(self) -> int:
        """Return the maximum number of pairs in a stack."""
        finest = {id(q.finest): q.finest.size for q in self.queries if q.finest is not None}
        cells = sum(finest.values()) + sum(query.keys.size for query in self.queries)
        return max(1, min(4096, MOST_CELLS // max(1, cells)))

    def extremes(self, table: str, column: str) -> Extremes:
        """Return the values to try in a stored column."""
        if (table, column) not in self.known:
            declared = self.tables[table].columns[column]
            self.known[table, column] = extremes_of(declared, self.literals)
        return self.known[table, column]

    def invent_units(self, n: int) -> list[Rows]:
        """Return n units of one row in each table, mostly with usual values."""
        by_table = {name: self._rows(name, n) for name in self.tables}
        return [{name: [rows[i]] for name, rows in by_table.items()} for i in range(n)]

    def _rows(self, table: str, n: int) -> list[Row]:
        rows: list[dict[str, object]] = [{} for _ in range(n)]
        unit = self.tables[table].unit.id
        for name, column in self.tables[table].columns.items():
            if not is_stored(column) or name == unit:
                continue
            tried = self.extremes(table, name)
            odd = self.draws.happens(n, ODD).tolist()
            usual = self.draws.whole(n, 0, len(tried.usual) - 1).tolist()
            strange = self.draws.whole(n, 0, len(tried.odd) - 1).tolist()
            for i, row in enumerate(rows):
                row[name] = tried.odd[strange[i]] if odd[i] else tried.usual[usual[i]]
            if isinstance(column, CategoryColumn) and column.within in rows[0]:
                _set_parent_areas(rows, name, column)
        return list(rows)

    def measure_situations(
        self,
        situations: Sequence[Situation],
        *,
        first: bool = True,
        storage: str = AS_DECLARED,
        keys: Keys = NO_KEYS,
    ) -> dict[tuple[str, str], FoundCells]:
        """Return the values of every measurement for one side of all situations.

        `keys` has the same meaning as in `found_in_stack`.

        Raises
        ------
        EngineFailure
            If the engine fails, as in `Stage.engines`.
        """
        stacked = stack(self.tables, situations, first=first, storage=storage)
        queries = stacked_queries(self.queries, len(situations))
        return found_in_stack(self.stage, queries, {**self.public, **stacked}, self.codes, keys)

    def keys_of(self, situations: Sequence[Situation], storages: Sequence[str]) -> Keys:
        """Return the non-public keys on both sides of situations, in each way of storing."""
        queries = stacked_queries(self.queries, len(situations))
        found: dict[str, set[str]] = {q.name: set() for q in queries if q.private is not None}
        for storage, first in itertools.product(storages if found else (), (True, False)):
            stacked = stack(self.tables, situations, first=first, storage=storage)
            with suppress(EngineFailure):  # the failure is reported with the measurements
                known = keys_in_stack(self.stage, queries, {**self.public, **stacked})
                for name, keys in known.items():
                    found[name] |= {*keys}
        return found


def _set_parent_areas(rows: list[dict[str, object]], name: str, column: CategoryColumn) -> None:
    """Set most areas to those of the declared nesting; other rows stay contradictory."""
    above = dict(zip(column.values or (), column.above, strict=False))
    for i, row in enumerate(rows):
        if i % 8:
            row[str(column.within)] = above.get(str(row[name]), row[str(column.within)])


def hits_of(group: Group, until: float = math.inf) -> dict[tuple[str, str], list[Hit]]:
    """Return rows that count in each measurement: random rows, and rows with each value to try.

    `until` is the deadline, by `time.monotonic()`, after which no further stack is run.
    """
    room = group.pairs
    units = group.invent_units(min(ROWS, max(room, 16)))
    hits = _counting_hits(group, units, until)
    again: list[Rows] = []
    for query in group.queries:
        bases: dict[int, Rows] = {}
        for measurement in query.measurements:
            for hit in hits.get((query.name, measurement.name), ()):
                bases.setdefault(hit.cell, hit.rows)
        some = [*bases.values()][:BASES]
        again += _set_all_columns(group, query, some)
        for measurement in query.measurements:
            again += _vary_columns(group, query, measurement, some)
    most = 4 * max(room, 64)
    stride = max(1, len(again) // most)
    for name, more in _counting_hits(group, again[::stride], until).items():
        hits.setdefault(name, []).extend(more)
    return hits


def _counting_hits(
    group: Group, units: Sequence[Rows], until: float
) -> dict[tuple[str, str], list[Hit]]:
    hits: dict[tuple[str, str], list[Hit]] = {}
    room = group.pairs
    for first in range(0, len(units), room):
        if first and time.monotonic() > until:
            break
        part = units[first : first + room]
        alone = [Situation("a unit of one row", unit) for unit in part]
        answer, failing = answer_without_failures(group.measure_situations, alone)
        group.failing.extend(alone[i] for i in failing)
        for name, found in (answer or {}).items():
            found_hits = hits.setdefault(name, [])
            entries = zip(
                found.pair.tolist(), found.cell.tolist(), found.candidate.tolist(),
                found.value.tolist(), strict=True,
            )  # fmt: skip
            found_hits += [
                Hit(part[pair], cell, value if candidate == 0 else candidate)
                for pair, cell, candidate, value in entries
            ]
    return hits


def _vary_columns(
    group: Group, query: Query, measurement: Measurement, bases: Sequence[Rows]
) -> list[Rows]:
    """Return copies of rows with each value to try in the columns that a measurement reads."""
    variants = list[Rows]()
    for table, name in _columns_read_by(group, query, measurement):
        tried = group.extremes(table, name)
        for base in bases:
            for value in (*tried.usual[:8], *tried.usual[-4:], *tried.odd):
                row = {**base[table][0], name: value}
                variants.append({**base, table: [row]})
    return variants


def _set_all_columns(group: Group, query: Query, bases: Sequence[Rows]) -> list[Rows]:
    """Return copies of rows in which all columns that measurements read are at a bound."""
    each = [_columns_read_by(group, query, measurement) for measurement in query.measurements]
    places = list(dict.fromkeys(place for several in each for place in several))
    variants = list[Rows]()
    for base, pick in itertools.product(
        bases if len(places) > 1 else (), (_first_value, _second_value, _farthest_value)
    ):
        rows = {table: dict(own[0]) for table, own in base.items()}
        for table, name in places:
            rows[table][name] = pick(group.extremes(table, name).usual)
        variants.append({table: [row] for table, row in rows.items()})
    return variants


def _first_value(values: Sequence[object]) -> object:
    return values[0]


def _second_value(values: Sequence[object]) -> object:
    return values[min(1, len(values) - 1)]


def _farthest_value(values: Sequence[object]) -> object:
    """Return the value that is farthest from zero, if the values are numbers."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return max(numbers, key=abs, default=values[-1])


def _columns_read_by(group: Group, query: Query, measurement: Measurement) -> list[tuple[str, str]]:
    """Return the stored columns that a measurement reads, each with its table."""
    columns, reads = query.table.columns, measurement.aggregate.reads
    named = [c.cut if isinstance(c := columns[n], CutColumn) else n for n in reads]
    stored = [n for n in closure(columns, query.formulas, named) if is_stored(columns[n])]
    return [
        (table, name)
        for table, declared in group.tables.items()
        for name in stored
        if name in declared.columns and name != declared.unit.id
    ]
