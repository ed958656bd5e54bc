"""Generate random values of a column, of its declared type, within its bounds and at its bounds.

The random numbers determine only synthetic people, and do not affect the privacy of real people.
For this reason uniform numbers have only 53 random bits, and floats may be rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TimestampColumn,
)
from dprelease.schema.field_types import DROP
from dprelease.schema.number_bounds import day_bounds
from dprelease.schema.rehearsal_spec import RehearsalSpec

if TYPE_CHECKING:
    import pyarrow as pa


AT_A_BOUND = 0.02
"""The share of numbers that equal the lower bound, and the share that equal the upper bound."""

FIRST_DAY, LAST_DAY = date(2020, 1, 1), date(2029, 12, 31)
"""The range of days in columns without bounds, for releases without days in their conditions."""

EPOCH = date(1970, 1, 1)

MOST_TEXTS = 5000
FEWEST_TEXTS = 20
ROWS_OF_A_TEXT = 20
"""The average number of rows with the same text, between these numbers of different texts."""


@dataclass(frozen=True)
class Literals:
    """The literals in the conditions and expressions of a release."""

    texts: tuple[str, ...] = ()
    numbers: tuple[Fraction, ...] = ()
    days: tuple[date, ...] = ()


@dataclass(frozen=True)
class ColumnGenerator:
    """The generator of the columns of one table, which has the positions of earlier values."""

    draws: Draws
    spec: RehearsalSpec
    literals: Literals = Literals()
    value_positions: dict[str, Integers] = field(default_factory=dict)
    """The index of each row's value among the declared values, by generated category column."""
    declared_values: dict[str, Sequence[str]] = field(default_factory=dict)
    """The declared values of each generated category column."""

    def values(self, name: str, column: Column, n: int) -> pa.Array:
        """Return (n,) values of a stored column, some of which are missing."""
        if isinstance(column, CategoryColumn):
            return self._categories(name, column, n)
        missing = self.draws.bernoulli(n, float(self.spec.missing))
        if isinstance(column, BooleanColumn):
            return _with_nulls(self._booleans(name, n), missing)
        if isinstance(column, IntegerColumn):
            return _with_nulls(self._integers(column, n), missing)
        if isinstance(column, NumberColumn):
            return _with_nulls(self._numbers(column, n), missing)
        if isinstance(column, DateColumn):
            return _with_nulls(self._days(column, n), missing)
        if isinstance(column, TimestampColumn):
            return _with_nulls(self._timestamps(column, n), missing)
        return self._texts(name, n, missing)

    def _weights(self, name: str, values: Sequence[str]) -> Floats:
        """Return the declared frequencies of values, or by default frequencies by Zipf's law."""
        declared = self.spec.frequencies.get(name)
        if declared is None:
            return zipf_weights(len(values), float(self.spec.zipf))
        return np.array([float(declared.get(value, 0)) for value in values])

    def _categories(self, name: str, column: CategoryColumn, n: int) -> pa.Array:
        """Return n random categories; parts of areas lie in the area of the same row."""
        import pyarrow as pa

        values = column.values or ()
        weights = self._weights(name, values)
        areas: Integers = np.zeros(n, dtype=np.int64)
        value_areas: Integers = np.zeros(len(values), dtype=np.int64)
        above = column.within[0] if column.within else None
        if above in self.value_positions:
            areas = self.value_positions[above]
            value_areas = self._parent_positions(column, above)
            if name not in self.spec.frequencies:  # Zipf's law holds in each area
                weights = _zipf_weights_in_areas(value_areas, float(self.spec.zipf))
        positions = self.draws.weighted_indices_in_areas(areas, weights, value_areas)
        self.value_positions[name], self.declared_values[name] = positions, values
        allocated = {*column.allocated_values}  # the codes of all other areas are missing
        texts = [value if value in allocated else None for value in values]
        if column.others != DROP:
            other = self.draws.bernoulli(n, float(self.spec.undeclared))
            positions = np.where(other, len(values), positions)
            texts.append(_undeclared_text(values))
        missing = self.draws.bernoulli(n, float(self.spec.missing))
        return pa.array(texts, pa.string()).take(pa.array(positions, mask=missing))

    def _parent_positions(self, column: CategoryColumn, above: str) -> Integers:
        """Return the index of each value's parent area among the values of the column `above`."""
        position = {area: i for i, area in enumerate(self.declared_values[above])}
        positions: Integers = np.array(
            [position[area] for area in column.parent_areas], dtype=np.int64
        )
        return positions

    def _booleans(self, name: str, n: int) -> pa.Array:
        """Return n random booleans with the declared frequencies."""
        import pyarrow as pa

        declared = self.spec.frequencies.get(name, {"false": Fraction(2), "true": Fraction(1)})
        weights = np.array([float(declared.get(value, 0)) for value in ("false", "true")])
        return pa.array(self.draws.weighted_indices(n, weights) == 1)

    def _integers(self, column: IntegerColumn, n: int) -> pa.Array:
        """Return n random integers, some of them at the bounds."""
        import pyarrow as pa

        low, high = column.lower, column.upper
        if low is None or high is None:
            low, high = self._range_without_bounds()
        return pa.array(self._skewed_integers(n, low, high))

    def _numbers(self, column: NumberColumn, n: int) -> pa.Array:
        """Return n random numbers, some of them at the bounds."""
        import pyarrow as pa

        lattice = column.lattice
        if lattice is None:
            low, high = self._range_without_bounds()
            return pa.array(low + self.draws.uniform(n) * (high - low))
        steps = self._skewed_integers(n, lattice.lower, lattice.upper)
        unit = lattice.step
        scaled = steps.astype(np.float64) * float(unit.numerator) / float(unit.denominator)
        return pa.array(np.clip(scaled, float(column.lower or 0), float(column.upper or 0)))

    def _range_without_bounds(self) -> tuple[int, int]:
        """Return a range of numbers without bounds, which contains the literals in conditions."""
        known = [int(number) for number in self.literals.numbers if abs(number) < 2**40]
        return min([0, *(2 * number for number in known)]), max([100, *(2 * n for n in known)])

    def _skewed_integers(self, n: int, low: int, high: int) -> Integers:
        """Return (n,) integers from `low` to `high`: some at both ends, and most of them low."""
        drawn = self.draws.uniform(n) ** 2
        span = float(high - low)
        spread = low + np.minimum(drawn * (span + 1), span).astype(np.int64)
        where = self.draws.uniform(n)
        spread[where < AT_A_BOUND] = low
        spread[where >= 1 - AT_A_BOUND] = high
        return np.clip(spread, low, high)

    def _day_range(self, column: DateColumn | TimestampColumn) -> tuple[date, date]:
        """Return the first and the last day of a column: its bounds, or days around literals."""
        bounds = day_bounds(column.lower, column.upper)
        if bounds is not None:
            return bounds
        days = self.literals.days
        if not days:
            return FIRST_DAY, LAST_DAY
        return _shift_day(min(days), -366), _shift_day(max(days), 366)

    def _days(self, column: DateColumn, n: int) -> pa.Array:
        import pyarrow as pa

        first, last = self._day_range(column)
        drawn = self.draws.integers(n, (first - EPOCH).days, (last - EPOCH).days)
        return pa.array(drawn.astype(np.int32)).cast(pa.date32())

    def _timestamps(self, column: TimestampColumn, n: int) -> pa.Array:
        import pyarrow as pa

        first, last = self._day_range(column)
        day = 24 * 3600
        ends = (first - EPOCH).days * day, (last - EPOCH).days * day
        if column.lattice is not None:
            ends = column.lattice.lower, column.lattice.upper
        seconds = self.draws.integers(n, *ends)
        return pa.array(seconds * 10**6).cast(pa.timestamp("us"))

    def _texts(self, name: str, n: int, missing: Flags) -> pa.Array:
        """Return n random texts, among them those with which conditions compare the column."""
        import pyarrow as pa

        size = min(max(FEWEST_TEXTS, n // ROWS_OF_A_TEXT), MOST_TEXTS)
        texts = [*self.literals.texts, *(f"{name} {i}" for i in range(1, size + 1))]
        positions = self.draws.weighted_indices(n, zipf_weights(len(texts), float(self.spec.zipf)))
        return pa.array(texts, pa.string()).take(pa.array(positions, mask=missing))


def _with_nulls(values: pa.Array, missing: Flags) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values)


def _undeclared_text(values: Sequence[str]) -> str:
    """Return a text that is not declared."""
    text = "undeclared"
    while text in values:
        text += "_"
    return text


def _zipf_weights_in_areas(areas: Integers, power: float) -> Floats:
    """Return the weights of Zipf's law within each area; `areas` is in ascending order."""
    first = np.searchsorted(areas, areas)
    rank: Floats = (np.arange(len(areas)) - first + 1).astype(np.float64)
    return rank**-power


def _shift_day(day: date, days: int) -> date:
    """Return the day after a number of days, or the same day if the calendar ends before it."""
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return day


def parent_areas_first(columns: Mapping[str, Column]) -> list[str]:
    """Return the names of columns, in an order in which parent areas come before their parts."""
    remaining, ordered = dict(columns), list[str]()
    while remaining:
        for name, column in list(remaining.items()):
            if not remaining.keys() & {*getattr(column, "within", ())}:
                ordered.append(name)
                del remaining[name]
    return ordered


class Draws:
    """Draws vectors of random values from one stream of random 64-bit words."""

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def uniform(self, n: int) -> Floats:
        """Return (n,) uniform numbers from [0, 1)."""
        return (self._bits.words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def bernoulli(self, n: int, probability: float) -> Flags:
        """Return (n,) independent booleans, each of which is true with this probability."""
        return self.uniform(n) < probability

    def integers(self, n: int, low: int, high: int) -> Integers:
        """Return (n,) uniform integers from `low` to `high`, whose magnitudes are at most 2^62."""
        return low + (self.uniform(n) * (high - low + 1)).astype(np.int64)

    def weighted_indices(self, n: int, weights: Floats) -> Integers:
        """Return (n,) indices of `weights`, with probabilities proportional to the weights."""
        return self.weighted_indices_in_areas(
            np.zeros(n, dtype=np.int64), weights, np.zeros(len(weights), dtype=np.int64)
        )

    def weighted_indices_in_areas(
        self, areas: Integers, weights: Floats, area_of: Integers
    ) -> Integers:
        """Return, for each area in `areas`, a random index of `weights` that lies in this area.

        The probabilities of the indices of an area are proportional to their weights. `area_of` has
        the area of each index, in ascending order. Every area in `areas` must have an index with a
        positive weight.
        """
        upto = np.concatenate(([0.0], np.cumsum(weights)))
        numbers = np.arange(int(areas.max(initial=0)) + 2)
        first = np.searchsorted(area_of, numbers)
        low, high = upto[first[areas]], upto[first[areas + 1]]
        drawn = low + self.uniform(len(areas)) * (high - low)
        indices: Integers = np.searchsorted(upto, drawn, side="right") - 1
        # A number that was rounded at the end of an area may belong to the next area's index.
        return np.clip(indices, first[areas], np.maximum(first[areas + 1] - 1, 0))

    def log_uniform_integers(self, n: int, most: int, share_above: float) -> Integers:
        """Return (n,) integers from 1 to `most`, except for a share of larger integers.

        The logarithms of the integers are uniform, so that every order of magnitude occurs equally
        often. The share `share_above` of the integers is larger than `most`, and at most twice
        `most`.
        """
        drawn = np.exp(self.uniform(n) * math.log(most + 1)).astype(np.int64)
        numbers = np.clip(drawn, 1, most)
        above = np.flatnonzero(self.bernoulli(n, share_above))
        numbers[above] = most + 1 + self.integers(len(above), 0, most - 1)
        return numbers


def zipf_weights(n: int, power: float) -> Floats:
    """Return the (n,) weights of Zipf's law, of which the k-th is k^-power."""
    return np.arange(1, n + 1, dtype=np.float64) ** -power
