"""Sums of squares of declared numbers, and of products of two declared numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import (
    Aggregate,
    presence_text,
    sum_sensitivity,
    unit_of,
)
from dprelease.query.aggregates.sum import Sum
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

LARGEST_PRODUCT = 2**24
"""The maximum product, in steps: steps finer than any noise, and coarse enough for exact sums."""


def coarse_step(largest: int) -> int:
    """Return the power of two by which products up to `largest` are divided, 1 if none is."""
    return 1 << max(0, largest.bit_length() - LARGEST_PRODUCT.bit_length() + 1)


@dataclass(frozen=True, slots=True)
class ProductSum(Aggregate):
    """The sum of round(a b / coarse) - offset, for a and b in whole steps from their centers.

    a is `left.least` to `left.most`, and b is `right.least` to `right.most`; for a sum of squares,
    both are of one column. A row in which one of them or one of the columns `beside` is missing
    adds nothing.

    Integers are rounded half up, so the result is exact. Rounding is monotone, and the extremes of
    a product over a rectangle are at its corners. So what a row adds lies between the rounded
    smallest and largest corner, and reaches both.

    The offset is half of the largest square: squares that are centred around zero need half as much
    noise, and the count of rows tells how much was subtracted. It is 0 for products of two columns.
    """

    column: str
    left: Sum
    right: Sum
    beside: tuple[str, ...] = ()
    coarse: int = 1
    offset: int = 0

    @classmethod
    def of(
        cls, left: Sum, right: Sum, beside: tuple[str, ...] = (), *, halved: bool = False
    ) -> ProductSum:
        """Return the sum of products of the values of two sums.

        The order of the two does not matter: two sums of the same products are equal. `halved`:
        whether half of the largest product is subtracted from each.
        """
        left, right = sorted((left, right), key=lambda one: (one.column, one.center))
        plain = cls(left.column, left, right, beside)
        largest = max(abs(plain.least), abs(plain.most))
        coarse = coarse_step(largest)
        top = (largest + coarse // 2) // coarse
        return cls(left.column, left, right, beside, coarse, top // 2 if halved else 0)

    @classmethod
    def squares(cls, centred: Sum, beside: tuple[str, ...] = ()) -> ProductSum:
        """Return the sum of squares of the values of a centred sum."""
        return cls.of(centred, centred, beside, halved=True)

    @property
    def is_square(self) -> bool:
        """Whether both factors are the same value."""
        return self.left == self.right

    @property
    def factors(self) -> tuple[Sum, ...]:
        """The sums of the single columns whose values are multiplied."""
        return (self.left,) if self.is_square else (self.left, self.right)

    @property
    def reads(self) -> tuple[str, ...]:
        """The multiplied columns, and the other columns that must not be missing."""
        return tuple(dict.fromkeys([self.left.column, self.right.column, *self.beside]))

    @property
    def step(self) -> Fraction:
        """The step of products, in the product of the columns' units."""
        return self.left.step * self.right.step * self.coarse

    @property
    def _corners(self) -> list[int]:
        """The products at the corners of the bounds, rounded, in steps of products."""
        left, right = (self.left.least, self.left.most), (self.right.least, self.right.most)
        products = [a * b for a in left for b in right]
        if self.is_square:
            least = 0 if left[0] <= 0 <= left[1] else min(products)
            products = [least, *(a * a for a in left)]
        return [(product + self.coarse // 2) // self.coarse for product in products]

    @property
    def least(self) -> int:
        """The minimum that one row adds, in steps of products."""
        return min(self._corners) - self.offset

    @property
    def lowest(self) -> int:
        """A number of steps that is below 0 only if a value of a row can be."""
        return min(0, self.left.lowest, self.right.lowest)

    @property
    def most(self) -> int:
        """The maximum that one row adds, in steps of products."""
        return max(self._corners) - self.offset

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: rows per group times the largest product, or difference."""
        return sum_sensitivity(self.least, self.most, unit, neighbours, cells)

    @property
    def description(self) -> str:
        """Return the description of what is multiplied and summed."""
        both = presence_text(self.beside)
        less = f", less {self.offset} steps each" if self.offset else ""
        if self.is_square:
            around = plain_text(self.left.center * self.left.step)
            return (
                f"sum of squares of '{self.column}' around {around}, each rounded to the "
                f"step{less}{both}"
            )
        names = " and ".join(
            f"'{one.column}'" + (f" less {plain_text(one.center * one.step)}" if one.center else "")
            for one in self.factors
        )
        return (
            f"sum of products of {names}, each value clamped to its bounds and rounded to its "
            f"step, and each product to the step of products{both}"
        )

    @property
    def lattice(self) -> Lattice:
        """The steps of the products."""
        return Lattice(lower=self.least, upper=self.most, step=self.step)

    @property
    def adds_up(self) -> bool:
        """Return True: the sums of parties can be added, as every row belongs to one party."""
        return True

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the product of the columns' units."""
        left, right = (unit_of(one.column, columns) for one in (self.left, self.right))
        if self.left.column == self.right.column:
            return f"({left})^2" if left else ""
        return " x ".join(unit for unit in (left, right) if unit)

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return f"{rows} rows of {self.least} to {self.most} steps"

    def evenly_spread(self, rows: int) -> int:
        """Return `rows` times the mean product of independent values, or the mean square."""
        a, b = self.left.least, self.left.most
        mean = Fraction(a * a + a * b + b * b, 3)
        if not self.is_square:
            mean = Fraction((a + b) * (self.right.least + self.right.most), 4)
        return rows * (round(mean / self.coarse) - self.offset)

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the largest absolute value of a product minus the offset."""
        return max(abs(self.least), abs(self.most))
