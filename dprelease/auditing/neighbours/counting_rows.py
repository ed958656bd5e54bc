"""Find rows that queries count, by running the queries of a release on many synthetic rows.

Conditions, expressions, joins and areas decide which rows are counted, and in which cell. This
module does not evaluate them itself: it tries usual values of each column, values at bounds, and
odd values.
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

from dprelease.auditing.exact_pairs import (
    KeyNumbers,
    KeysByQuery,
    MeasuredCells,
    keys_in_stack,
    measure_stack,
)
from dprelease.auditing.failures import answer_without_failures
from dprelease.auditing.neighbours.situations import Row, Rows, Situation
from dprelease.auditing.neighbours.stacks import stack_side, stacked_queries
from dprelease.auditing.neighbours.stored_values import AS_DECLARED
from dprelease.auditing.pairs import Tables
from dprelease.auditing.stage import AuditedRelease, EngineFailure
from dprelease.query.expressions.computed_order import with_input_columns
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import Draws, Literals
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
from dprelease.schema.number_bounds import day_bounds
from dprelease.schema.table import Table

MANY_VALUES = 40
"""The maximum number of tried values of a long list: its ends, and some values in between."""

UNDECLARED = "undeclared"
FIRST_DAY, LAST_DAY = date(2020, 1, 1), date(2029, 12, 31)


@dataclass(frozen=True, slots=True)
class ValuesToTry:
    """The values to try in a column.

    `usual` has values of rows that queries may count, and `odd` has missing values, invalid values,
    and values outside the bounds.
    """

    usual: tuple[object, ...]
    odd: tuple[object, ...]


def values_to_try(column: Column, literals: Literals) -> ValuesToTry:
    """Return the values to try in a stored column, with the literals in conditions."""
    match column:
        case CategoryColumn():
            texts = _spread_values(column.values or ())
            return ValuesToTry(texts, (None, "", UNDECLARED, " ", f"{texts[0]} "))
        case BooleanColumn():
            return ValuesToTry((True, False), (None, 2, "maybe"))
        case IntegerColumn():
            return _integers_to_try(column, literals)
        case NumberColumn():
            return _numbers_to_try(column, literals)
        case DateColumn() | TimestampColumn():
            return _days_to_try(column, literals)
        case TextColumn():
            texts = tuple(dict.fromkeys((*literals.texts, *(f"text {i}" for i in range(6)))))
            return ValuesToTry(texts, (None, "", " "))
    raise TypeError("a cut has no stored column")


def _spread_values(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return some values, if there are many: those at both ends, and others at equal distances."""
    if len(values) <= MANY_VALUES:
        return tuple(values)
    stride = max(1, len(values) // (MANY_VALUES // 2))
    ends = (*values[: MANY_VALUES // 4], *values[-MANY_VALUES // 4 :])
    return tuple(dict.fromkeys((*ends, *values[::stride])))


def _integers_to_try(column: IntegerColumn, literals: Literals) -> ValuesToTry:
    """Return the integers to try: near bounds, in the middle, near literals, and invalid values."""
    near = [int(number) + by for number in literals.numbers for by in (-1, 0, 1)]
    low, high = column.lower, column.upper
    if low is None or high is None:
        low, high = min([0, *near]), max([9, *near])
        return ValuesToTry(
            tuple(dict.fromkeys((low, high, *near, 1, 2, 3))), (None, 10**15, -(10**15))
        )
    step, middle = column.step, (low + high) // 2
    inside = (low, high, middle, low + step // 2, high - step // 2, *near, 0, 1)
    usual = [value for value in inside if low <= value <= high]
    beyond = (low - 1, high + 1, -(2**63), 2**63 - 1, None, math.nan, math.inf, -math.inf, 0.5, "x")
    return ValuesToTry(tuple(dict.fromkeys(usual)), beyond)


def _numbers_to_try(column: NumberColumn, literals: Literals) -> ValuesToTry:
    """Return the numbers to try: near bounds, in the middle, near literals, and invalid values."""
    near = [float(number) + by for number in literals.numbers for by in (-1.0, 0.0, 1.0)]
    lattice = column.lattice
    if lattice is None:
        return ValuesToTry(
            tuple(dict.fromkeys((0.0, 1.0, *near))), (None, math.nan, math.inf, 1e308)
        )
    low, high, step = float(column.lower or 0), float(column.upper or 0), float(lattice.step)
    inside = (low, high, (low + high) / 2, low + step / 2, high - step / 2, low + step, *near, 0.0)
    usual = [value for value in inside if low <= value <= high]
    odd = (
        None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1e308,
        low - step, high + step, "x",
    )  # fmt: skip
    return ValuesToTry(tuple(dict.fromkeys(usual)), odd)


def _days_to_try(column: DateColumn | TimestampColumn, literals: Literals) -> ValuesToTry:
    """Return the days to try: at bounds, in the middle, near literals, and invalid values."""
    low, high = day_bounds(column.lower, column.upper) or (FIRST_DAY, LAST_DAY)
    day = timedelta(days=1)
    near = [at + by for at in literals.days for by in (-day, timedelta(0), day)]
    days = list(dict.fromkeys((low, high, low + (high - low) // 2, *near)))
    odd: tuple[object, ...] = (None, date(1, 1, 1), date(9999, 12, 31), "x")
    if isinstance(column, DateColumn):
        return ValuesToTry(tuple(days), odd)
    if column.lower is not None and column.upper is not None:
        ends = column.lower, column.upper, column.lower + (column.upper - column.lower) / 2
        return ValuesToTry(ends, odd)
    return ValuesToTry(tuple(datetime(at.year, at.month, at.day, 12) for at in days), odd)


NO_KEYS: KeysByQuery = MappingProxyType({})

RANDOM_UNITS = 256
"""The maximum number of units with random values that are tried first."""

MOST_BASE_UNITS = 12
"""The maximum number of counted units that are then tried with every value of the read columns."""

MOST_CELLS = 1 << 22
"""The maximum number of cells in all tables of a stack, which limits the number of its pairs."""

ODD_SHARE = 0.15
"""The share of odd values among random values."""


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows of a unit that a query counts, the number of their cell, and their value in it."""

    rows: Rows
    cell: int
    value: int


@dataclass(frozen=True)
class QueryGroup:
    """The queries that read the same tables about people, and the values to try in the columns."""

    audited: AuditedRelease
    queries: tuple[Query, ...]
    tables: Mapping[str, Table]
    public: Tables
    literals: Literals
    draws: Draws
    known_values: dict[tuple[str, str], ValuesToTry] = field(default_factory=dict)
    key_numbers: KeyNumbers = field(default_factory=dict)
    failing_units: list[Situation] = field(default_factory=list)
    """Units on which the engine failed during the search; these are the first situations."""

    @property
    def max_pairs(self) -> int:
        """Return the maximum number of pairs in a stack."""
        finest = {id(q.finest): q.finest.size for q in self.queries if q.finest is not None}
        cells = sum(finest.values()) + sum(query.keys.size for query in self.queries)
        return max(1, min(4096, MOST_CELLS // max(1, cells)))

    def values_to_try(self, table: str, column: str) -> ValuesToTry:
        """Return the values to try in a stored column."""
        if (table, column) not in self.known_values:
            declared = self.tables[table].columns[column]
            self.known_values[table, column] = values_to_try(declared, self.literals)
        return self.known_values[table, column]

    def invent_units(self, n: int) -> list[Rows]:
        """Return n units with one row in each table, most of whose values are usual."""
        by_table = {name: self._rows(name, n) for name in self.tables}
        return [{name: [rows[i]] for name, rows in by_table.items()} for i in range(n)]

    def _rows(self, table: str, n: int) -> list[Row]:
        """Return n rows of a table with random values to try, most of them usual."""
        rows: list[dict[str, object]] = [{} for _ in range(n)]
        unit = self.tables[table].unit.id
        for name, column in self.tables[table].columns.items():
            if not is_stored(column) or name == unit:
                continue
            tried = self.values_to_try(table, name)
            odd = self.draws.bernoulli(n, ODD_SHARE).tolist()
            usual = self.draws.integers(n, 0, len(tried.usual) - 1).tolist()
            strange = self.draws.integers(n, 0, len(tried.odd) - 1).tolist()
            for i, row in enumerate(rows):
                row[name] = tried.odd[strange[i]] if odd[i] else tried.usual[usual[i]]
            if isinstance(column, CategoryColumn):
                _set_parent_areas(rows, name, column)
        return list(rows)

    def measure_situations(
        self,
        situations: Sequence[Situation],
        *,
        first: bool = True,
        storage: str = AS_DECLARED,
        keys: KeysByQuery = NO_KEYS,
    ) -> dict[tuple[str, str], MeasuredCells]:
        """Return the values of every measurement on one side of all situations.

        `first` selects the side that has the unit. `storage` is the way in which columns are
        stored, and `keys` are the non-public keys on either side, as in `measure_stack`.

        Raises EngineFailure if the engine fails, as in `AuditedRelease.engines`.
        """
        stacked = stack_side(self.tables, situations, first=first, storage=storage)
        queries = stacked_queries(self.queries, len(situations))
        return measure_stack(
            self.audited, queries, {**self.public, **stacked}, self.key_numbers, keys
        )

    def keys_on_both_sides(
        self, situations: Sequence[Situation], storages: Sequence[str]
    ) -> KeysByQuery:
        """Return the non-public keys that occur on either side, in any of the ways of storing."""
        queries = stacked_queries(self.queries, len(situations))
        found: dict[str, set[str]] = {q.name: set() for q in queries if q.private is not None}
        for storage, first in itertools.product(storages if found else (), (True, False)):
            stacked = stack_side(self.tables, situations, first=first, storage=storage)
            with suppress(EngineFailure):  # `measure_situations` reports the same failure
                known = keys_in_stack(self.audited, queries, {**self.public, **stacked})
                for name, keys in known.items():
                    found[name] |= {*keys}
        return found


def _set_parent_areas(rows: list[dict[str, object]], name: str, column: CategoryColumn) -> None:
    """Set the parent areas of most rows as declared; other rows keep contradictory areas."""
    for above in rows[0].keys() & {*column.within}:
        areas = dict(zip(column.values or (), column.areas_in(above), strict=True))
        for i, row in enumerate(rows):
            if i % 8:
                row[above] = areas.get(str(row[name]), row[above])


def find_counted_rows(
    group: QueryGroup, until: float = math.inf
) -> dict[tuple[str, str], list[CountedRows]]:
    """Return the rows that each measurement counts, by query and measurement.

    The function tries units with random values, and then variants of counted units with all values
    to try. `until` is the deadline, by `time.monotonic()`, after which no further stack is run.
    """
    room = group.max_pairs
    units = group.invent_units(min(RANDOM_UNITS, max(room, 16)))
    counted = _count_units(group, units, until)
    variants_to_try: list[Rows] = []
    for query in group.queries:
        bases: dict[int, Rows] = {}
        for measurement in query.measurements:
            for counted_rows in counted.get((query.name, measurement.name), ()):
                bases.setdefault(counted_rows.cell, counted_rows.rows)
        base_units = [*bases.values()][:MOST_BASE_UNITS]
        variants_to_try += _set_all_columns(group, query, base_units)
        for measurement in query.measurements:
            variants_to_try += _vary_columns(group, query, measurement, base_units)
    most = 4 * max(room, 64)
    stride = max(1, len(variants_to_try) // most)
    for name, more in _count_units(group, variants_to_try[::stride], until).items():
        counted.setdefault(name, []).extend(more)
    return counted


def _count_units(
    group: QueryGroup, units: Sequence[Rows], until: float
) -> dict[tuple[str, str], list[CountedRows]]:
    """Return the rows that measurements count, by measurement; each unit is measured alone."""
    counted: dict[tuple[str, str], list[CountedRows]] = {}
    room = group.max_pairs
    for first in range(0, len(units), room):
        if first and time.monotonic() > until:
            break
        part = units[first : first + room]
        alone = [Situation("a unit of one row", unit) for unit in part]
        answer, failing = answer_without_failures(group.measure_situations, alone)
        group.failing_units.extend(alone[i] for i in failing)
        for name, found in (answer or {}).items():
            of_measurement = counted.setdefault(name, [])
            entries = zip(
                found.pair.tolist(), found.cell.tolist(), found.candidate.tolist(),
                found.value.tolist(), strict=True,
            )  # fmt: skip
            of_measurement += [
                CountedRows(part[pair], cell, value if candidate == 0 else candidate)
                for pair, cell, candidate, value in entries
            ]
    return counted


def _vary_columns(
    group: QueryGroup, query: Query, measurement: Measurement, bases: Sequence[Rows]
) -> list[Rows]:
    """Return copies of units in which one column that a measurement reads has each value to try."""
    variants = list[Rows]()
    for table, name in _columns_read_by(group, query, measurement):
        tried = group.values_to_try(table, name)
        for base in bases:
            for value in (*tried.usual[:8], *tried.usual[-4:], *tried.odd):
                row = {**base[table][0], name: value}
                variants.append({**base, table: [row]})
    return variants


def _set_all_columns(group: QueryGroup, query: Query, bases: Sequence[Rows]) -> list[Rows]:
    """Return copies of units in which all columns that measurements read are at a bound."""
    each = [_columns_read_by(group, query, measurement) for measurement in query.measurements]
    places = list(dict.fromkeys(place for several in each for place in several))
    variants = list[Rows]()
    for base, pick in itertools.product(
        bases if len(places) > 1 else (), (_first_value, _second_value, _farthest_value)
    ):
        rows = {table: dict(own[0]) for table, own in base.items()}
        for table, name in places:
            rows[table][name] = pick(group.values_to_try(table, name).usual)
        variants.append({table: [row] for table, row in rows.items()})
    return variants


def _first_value(values: Sequence[object]) -> object:
    """Return the first value."""
    return values[0]


def _second_value(values: Sequence[object]) -> object:
    """Return the second value, or the only one."""
    return values[min(1, len(values) - 1)]


def _farthest_value(values: Sequence[object]) -> object:
    """Return the value that is farthest from zero, if the values are numbers."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return max(numbers, key=abs, default=values[-1])


def _columns_read_by(
    group: QueryGroup, query: Query, measurement: Measurement
) -> list[tuple[str, str]]:
    """Return the stored columns that a measurement reads, as names of tables and columns."""
    columns, reads = query.table.columns, measurement.aggregate.reads
    named = [c.cut if isinstance(c := columns[n], CutColumn) else n for n in reads]
    stored = [
        n for n in with_input_columns(columns, query.formulas, named) if is_stored(columns[n])
    ]
    return [
        (table, name)
        for table, declared in group.tables.items()
        for name in stored
        if name in declared.columns and name != declared.unit.id
    ]
