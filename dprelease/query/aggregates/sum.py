"""Sums of declared numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate, of_values, unit_of
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice


@dataclass(frozen=True, slots=True)
class Sum(Aggregate):
    """The sum of x - center over a column whose values x are in lower..upper steps.

    `beside`: another column; a row in which it is missing adds nothing. It changes no sensitivity:
    a row adds least..most or nothing, with it or without.
    """

    column: str
    lower: int
    upper: int
    # without `field`, a property of the base class would become the default
    step: Fraction = field()
    center: int = 0
    beside: str | None = None

    @classmethod
    def of(cls, column: str, lattice: Lattice) -> Self:
        """Return the sum of a column over the steps of its values."""
        return cls(column, lattice.lower, lattice.upper, lattice.step)

    @property
    def centered_sum(self) -> Self:
        """Return the sum around the middle of the bounds, which has the least sensitivity.

        If there is only one value, it is centred one step away from it, because otherwise nothing
        could be summed.
        """
        middle = (self.lower + self.upper) // 2
        return replace(self, center=middle - 1 if self.lower == self.upper else middle)

    @property
    def least(self) -> int:
        """Return the least that one row adds, in steps."""
        return self.lower - self.center

    @property
    def lowest(self) -> int:
        """Return the least value of a row, not its distance from the middle."""
        return self.lower

    @property
    def most(self) -> int:
        """Return the most that one row adds, in steps."""
        return self.upper - self.center

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return rows per group times the largest value, or the largest difference."""
        return of_values(self.least, self.most, unit, neighbours, cells)

    @property
    def words(self) -> str:
        """Return what is summed, and over which rows."""
        less = f", less {plain_text(self.center * self.step)} each" if self.center else ""
        both = ""
        if self.beside is not None:
            both = f", of rows in which '{self.beside}' is not missing either"
        return (
            f"sum of '{self.column}', each value clamped to its bounds and rounded to the step"
            f"{less}{both}"
        )

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the column, and the other one that must not be missing."""
        return (self.column,) if self.beside is None else (self.column, self.beside)

    @property
    def lattice(self) -> Lattice:
        """Return the steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.step)

    @property
    def adds_up(self) -> bool:
        """Return True: every row belongs to one party."""
        return True

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the column's unit."""
        return unit_of(self.column, columns)

    def each(self, rows: int) -> str:
        """Return, in words, the contribution of one privacy unit to a group."""
        return f"{rows} rows of {self.least} to {self.most} steps"

    def evenly_spread(self, rows: int) -> int:
        """Return 0, around which the values of a centred sum lie; only used for these."""
        return 0

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the size of the largest value."""
        return max(abs(self.least), abs(self.most))
