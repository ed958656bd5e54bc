"""Aggregates; each knows how far one privacy unit can move its cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dprelease.privacy.unit import Move, Neighbours, PrivacyUnit, Sensitivity

LARGEST_SQUARE = 2**24
"""Steps that the largest square has at most: finer than any noise, coarse enough for exact sums."""


@dataclass(frozen=True, slots=True)
class Count:
    """Rows, or rows in which `column` is not missing."""

    column: str | None = None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return rows per group: they appear or vanish together, or turn into fewer."""
        rows = unit.max_rows_per_group
        return Sensitivity.of(
            per_group=rows, within_group=rows, unit=unit, neighbours=neighbours, cells=cells
        )

    @property
    def step(self) -> Fraction:
        """Return 1."""
        return Fraction(1)


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of x - center over a column whose values x lie at lower..upper lattice steps.

    `beside`: another column, without which a row adds nothing. It changes no sensitivity: a row
    adds least..most or nothing, with it or without.
    """

    column: str
    lower: int
    upper: int
    step: Fraction
    center: int = 0
    beside: str | None = None

    @property
    def least(self) -> int:
        """Return the least that one row adds, lattice steps."""
        return self.lower - self.center

    @property
    def most(self) -> int:
        """Return the most that one row adds, lattice steps."""
        return self.upper - self.center

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return rows per group times the largest value, or the largest difference."""
        return _of_values(self.least, self.most, unit, neighbours, cells)


@dataclass(frozen=True, slots=True)
class SquareSum:
    """The sum of round((x - center)^2 / coarse) - offset, for x at lower..upper lattice steps.

    Rounding is half up on whole numbers, so exact. The offset is half of the largest square: values
    around zero need half the noise, and what is subtracted is known from the count of rows.
    """

    column: str
    lower: int
    upper: int
    base: Fraction
    """Step of x, in the column's unit."""
    center: int
    coarse: int
    offset: int

    @classmethod
    def of(cls, centred: Sum) -> SquareSum:
        """Return the squares that go with a centred sum."""
        largest = max(abs(centred.least), abs(centred.most)) ** 2
        coarse = 1 << max(0, largest.bit_length() - LARGEST_SQUARE.bit_length() + 1)
        top = (largest + coarse // 2) // coarse
        return cls(
            centred.column, centred.lower, centred.upper, centred.step, centred.center,
            coarse, top // 2,
        )  # fmt: skip

    @property
    def step(self) -> Fraction:
        """Return the step of squares, in the square of the column's unit."""
        return self.base**2 * self.coarse

    @property
    def least(self) -> int:
        """Return the least that one row adds, steps of squares."""
        return -self.offset

    @property
    def most(self) -> int:
        """Return the most that one row adds, steps of squares."""
        largest = max((self.lower - self.center) ** 2, (self.upper - self.center) ** 2)
        return (largest + self.coarse // 2) // self.coarse - self.offset

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return rows per group times the largest value, or the largest difference."""
        return _of_values(self.least, self.most, unit, neighbours, cells)


@dataclass(frozen=True, slots=True)
class CountDistinct:
    """Distinct ids of the privacy unit (`values` None), or distinct declared values of a column."""

    column: str
    values: int | None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return 1 for ids; for values, one for each row, but no more than there are values."""
        moved = 1 if self.values is None else min(unit.max_rows_per_group, self.values)
        return Sensitivity.of(
            per_group=moved, within_group=moved, unit=unit, neighbours=neighbours, cells=cells
        )

    @property
    def step(self) -> Fraction:
        """Return 1."""
        return Fraction(1)


@dataclass(frozen=True, slots=True)
class Quantile:
    """A value that holds the rank `at` = a/b: at most that part of the values lies below it.

    Candidates are `lower` + i `stride` for i = 0..`last`, column steps; values are rounded down to
    the nearest candidate. Of n values, L lie below a candidate and E at it, so that it holds the
    ranks L to L + E. Its score is minus the distance of the rank a n / b from these, b points to a
    row: u = -max(0, f, g), f = b L - a n - c, g = a n + d - b (L + E), with constants c = d = 0 but
    for the ends (`planning/quantile_target.py`). It is 0 for true quantiles alone, however many
    values tie.

    How far one row moves two scores apart, for any constants c and d, with m = max(a, b - a):

    * A value v comes. Below v, f falls and g rises by a; above v, f rises and g falls by b - a: the
      largest of (0, f, g) moves by no more than its parts. At v, f falls by a and g by b - a: u
      rises by 0 to m. All moves lie in [-m, m], so two scores move apart by at most 2 m. A value
      that goes does the reverse.
    * A value moves from v to w > v, n being the same. Between them f falls and g rises by b: u
      moves by b at most. At v only g rises, by b; at w only f falls, by b; all others stay. So two
      scores move apart by at most 2 b. From w to v is the reverse.
    * Several rows of a unit do so one after another, and spans of moves add up at most. Of k rows
      that give way to j others, the smaller number moves and the rest comes or goes: 2 m <= 2 b.
    """

    column: str
    lower: int
    upper: int
    base: Fraction
    at: Fraction
    stride: int = 1

    @property
    def step(self) -> Fraction:
        """Return the step between candidates, in the column's unit."""
        return self.base

    @property
    def candidates(self) -> int:
        """Return how many values can be chosen."""
        return (self.upper - self.lower) // self.stride + 1

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far one unit can move two scores of a cell apart, in how many cells."""
        a, b = self.at.numerator, self.at.denominator
        rows = unit.max_rows_per_group
        return Sensitivity.of(
            per_group=rows * 2 * max(a, b - a),
            within_group=rows * 2 * b,
            unit=unit,
            neighbours=neighbours,
            cells=cells,
        )


@dataclass(frozen=True, slots=True)
class Tree:
    """Counts of values in ever finer halves of a lattice, from which any quantile can be read.

    `levels` halvings of candidates numbered as in `Quantile`; a row counts once in each level. Only
    for units with one row in a group: several rows could meet in one node.
    """

    column: str
    lower: int
    upper: int
    base: Fraction
    stride: int

    @property
    def step(self) -> Fraction:
        """Return the step between candidates, in the column's unit."""
        return self.base

    @property
    def candidates(self) -> int:
        """Return how many values there are."""
        return (self.upper - self.lower) // self.stride + 1

    @property
    def levels(self) -> int:
        """Return how often the candidates are halved."""
        return max(1, (self.candidates - 1).bit_length())

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return one node in each level of each group; two, where one row gives way to another."""
        if unit.max_rows_per_group != 1:
            raise ValueError("a tree is for units with one row in a group")
        slots = min(unit.max_groups, cells) * self.levels
        nodes = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return Sensitivity(slots, (Move(1, nodes),))


@dataclass(frozen=True, slots=True)
class Frequent:
    """The declared value of a column that most rows have, or the next ones after it.

    `rank` 1 is the most frequent; a value is chosen among those not yet chosen by lower ranks of
    the same column. The score of a value is its number of rows.
    """

    column: str
    values: int
    rank: int = 1

    @property
    def step(self) -> Fraction:
        """Return 1: positions of declared values."""
        return Fraction(1)

    @property
    def candidates(self) -> int:
        """Return how many values can be chosen."""
        return self.values

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far one unit can move two scores of a cell apart, in how many cells."""
        rows = unit.max_rows_per_group
        return Sensitivity.of(
            per_group=rows, within_group=2 * rows, unit=unit, neighbours=neighbours, cells=cells
        )


def _of_values(
    least: int, most: int, unit: PrivacyUnit, neighbours: Neighbours, cells: int
) -> Sensitivity:
    """Return the sensitivity of a sum to which one row adds from `least` to `most` steps.

    Within a group a row may be replaced by another or by none (its value is missing, or the
    predicate drops it), so the difference reaches from min(least, 0) to max(most, 0).
    """
    rows = unit.max_rows_per_group
    return Sensitivity.of(
        per_group=rows * max(abs(least), abs(most)),
        within_group=rows * (max(most, 0) - min(least, 0)),
        unit=unit,
        neighbours=neighbours,
        cells=cells,
    )


@dataclass(frozen=True, slots=True)
class Partitions:
    """Which keys are selected; the score of a key is the number of units that have it."""

    column: None = None

    @property
    def step(self) -> Fraction:
        """Return 1."""
        return Fraction(1)

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return one unit for each of the unit's groups; within a group nothing changes."""
        return Sensitivity.of(
            per_group=1, within_group=1, unit=unit, neighbours=neighbours, cells=cells
        )


Total = Sum | SquareSum
Choice = Quantile | Frequent | Tree
Aggregate = Count | Sum | SquareSum | CountDistinct | Quantile | Tree | Frequent | Partitions
