"""Sums of squares of declared numbers, for variances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate, of_values, unit_of
from dprelease.query.aggregates.sum import Sum
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

LARGEST_SQUARE = 2**24
"""Maximum of the squares, in steps: finer than any noise, coarse enough for exact sums."""


@dataclass(frozen=True, slots=True)
class SquareSum(Aggregate):
    """The sum of round((x - center)^2 / coarse) - offset, for x in lower..upper steps.

    Rounding is half up on integers, so exact. The offset is half of the largest square: values
    around zero need half the noise, and the count of rows determines what was subtracted.
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
        """Return the squares that belong to a centred sum."""
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
        """Return the least that one row adds, in steps of squares."""
        return -self.offset

    @property
    def most(self) -> int:
        """Return the most that one row adds, in steps of squares."""
        largest = max((self.lower - self.center) ** 2, (self.upper - self.center) ** 2)
        return (largest + self.coarse // 2) // self.coarse - self.offset

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return rows per group times the largest value, or the largest difference."""
        return of_values(self.least, self.most, unit, neighbours, cells)

    @property
    def words(self) -> str:
        """Return what is squared and summed."""
        return (
            f"sum of squares of '{self.column}' around {plain_text(self.center * self.base)}, each "
            f"rounded to the step, less {self.offset} steps each"
        )

    @property
    def lattice(self) -> Lattice:
        """Return the steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the square of the column's unit."""
        unit = unit_of(self.column, columns)
        return f"({unit})^2" if unit else ""

    def each(self, rows: int) -> str:
        """Return, in words, the contribution of one privacy unit to a group."""
        return f"{rows} rows of {self.least} to {self.most} steps"

    def evenly_spread(self, rows: int) -> int:
        """Return, for each row, the mean square (a third of the largest), less the offset."""
        return rows * ((self.most + self.offset) // 3 - self.offset)

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the size of the largest square."""
        return max(abs(self.least), abs(self.most))
