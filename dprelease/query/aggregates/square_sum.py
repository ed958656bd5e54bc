"""Sums of squares of declared numbers, for variances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate, sum_sensitivity, unit_of
from dprelease.query.aggregates.sum import Sum
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

LARGEST_SQUARE = 2**24
"""The maximum square, in steps: steps finer than any noise, and coarse enough for exact sums."""


@dataclass(frozen=True, slots=True)
class SquareSum(Aggregate):
    """The sum of round((x - center)^2 / coarse) - offset, for x in lower..upper steps.

    Integers are rounded half up, so the result is exact. The offset is half of the largest square:
    squares that are centred around zero need half as much noise, and the count of rows tells how
    much was subtracted.
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
        """Return the sum of squares for the column of a centred sum."""
        largest = max(abs(centred.least), abs(centred.most)) ** 2
        coarse = 1 << max(0, largest.bit_length() - LARGEST_SQUARE.bit_length() + 1)
        top = (largest + coarse // 2) // coarse
        return cls(
            centred.column, centred.lower, centred.upper, centred.step, centred.center,
            coarse, top // 2,
        )  # fmt: skip

    @property
    def step(self) -> Fraction:
        """The step of squares, in the square of the column's unit."""
        return self.base**2 * self.coarse

    @property
    def least(self) -> int:
        """The minimum that one row adds, in steps of squares."""
        return -self.offset

    @property
    def most(self) -> int:
        """The maximum that one row adds, in steps of squares."""
        largest = max((self.lower - self.center) ** 2, (self.upper - self.center) ** 2)
        return (largest + self.coarse // 2) // self.coarse - self.offset

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: rows per group times the largest square, or difference."""
        return sum_sensitivity(self.least, self.most, unit, neighbours, cells)

    @property
    def description(self) -> str:
        """Return the description of what is squared and summed."""
        return (
            f"sum of squares of '{self.column}' around {plain_text(self.center * self.base)}, each "
            f"rounded to the step, less {self.offset} steps each"
        )

    @property
    def lattice(self) -> Lattice:
        """The steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the square of the column's unit."""
        unit = unit_of(self.column, columns)
        return f"({unit})^2" if unit else ""

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return f"{rows} rows of {self.least} to {self.most} steps"

    def evenly_spread(self, rows: int) -> int:
        """Return `rows` times the mean square (a third of the largest), minus the offset."""
        return rows * ((self.most + self.offset) // 3 - self.offset)

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the largest absolute value of a square minus the offset."""
        return max(abs(self.least), abs(self.most))
