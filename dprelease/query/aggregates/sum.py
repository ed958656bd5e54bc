"""Sums of declared numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import (
    Aggregate,
    presence_text,
    sum_sensitivity,
    unit_of,
)
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice


@dataclass(frozen=True, slots=True)
class Sum(Aggregate):
    """The sum of x - center over a column whose values x are in lower..upper steps.

    A row in which one of the columns `beside` is missing adds nothing. The
    sensitivity is the same with and without it, because in both cases a row adds a number from
    `least` to `most`, or nothing.

    `most_of_unit` is the largest absolute sum of one privacy unit in a cell, in steps, or None. The
    rows of each unit in a cell are added up first, and then clipped.
    """

    column: str
    lower: int
    upper: int
    # without `field`, the property of the base class would become the default value
    step: Fraction = field()
    center: int = 0
    beside: tuple[str, ...] = ()
    most_of_unit: int | None = None

    @classmethod
    def of(cls, column: str, lattice: Lattice) -> Self:
        """Return the sum of a column over the steps of its values."""
        return cls(column, lattice.lower, lattice.upper, lattice.step)

    @property
    def centered_sum(self) -> Self:
        """Return the sum around the middle of the bounds, which has the smallest sensitivity.

        If the bounds allow only one value, the sum is centred one step away from that value,
        because otherwise every row would add 0.
        """
        middle = (self.lower + self.upper) // 2
        return replace(self, center=middle - 1 if self.lower == self.upper else middle)

    @property
    def least(self) -> int:
        """The minimum that one row adds, in steps."""
        return self.lower - self.center

    @property
    def lowest(self) -> int:
        """The minimum value of a row, in steps, before the center is subtracted."""
        return self.lower

    @property
    def most(self) -> int:
        """The maximum that one row adds, in steps."""
        return self.upper - self.center

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: rows per group times the largest value, or difference."""
        ends = self.least, self.most
        return sum_sensitivity(*ends, unit, neighbours, cells, self.most_of_unit)

    @property
    def description(self) -> str:
        """Return the description of what is summed, and over which rows."""
        less = f", less {plain_text(self.center * self.step)} each" if self.center else ""
        return (
            f"sum of '{self.column}', each value clamped to its bounds and rounded to the step"
            f"{less}{presence_text(self.beside)}{self._clipping_text}"
        )

    @property
    def _clipping_text(self) -> str:
        """Return a text on how the sums of privacy units are clipped; empty if they aren't."""
        if self.clipped_sum is None:
            return ""
        most = plain_text(self.clipped_sum)
        return f", the sum of one privacy unit in a group clamped to -{most} to {most}"

    @property
    def clipped_sum(self) -> Fraction | None:
        """The absolute value to which the sum of a privacy unit in a cell is clipped, if any."""
        return None if self.most_of_unit is None else self.most_of_unit * self.step

    @property
    def reads(self) -> tuple[str, ...]:
        """The summed column, and the other columns that must not be missing."""
        return (self.column, *self.beside)

    @property
    def lattice(self) -> Lattice:
        """The steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.step)

    @property
    def adds_up(self) -> bool:
        """Return True: the sums of parties can be added, as every row belongs to one party."""
        return True

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the column's unit."""
        return unit_of(self.column, columns)

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        clipped = ""
        if self.most_of_unit is not None:
            clipped = f", with a sum of -{self.most_of_unit} to {self.most_of_unit} steps"
        return f"{rows} rows of {self.least} to {self.most} steps{clipped}"

    def evenly_spread(self, rows: int) -> int:
        """Return `rows` times the middle of the bounds, minus the center."""
        return rows * (self.least + self.most) // 2

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the largest absolute value that one row adds, also if it has a clipped sum."""
        return max(abs(self.least), abs(self.most), self.most_of_unit or 0)
