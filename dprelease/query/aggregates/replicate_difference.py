"""Sums of differences between a replicate weight and the weight, for design variances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate, sum_sensitivity, unit_of
from dprelease.query.aggregates.product_sum import ProductSum, coarse_step
from dprelease.query.aggregates.sum import Sum
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

WIDEST_PRODUCT = 2**125
"""The number below which products, and what is added to round them, fit into 128 bits."""


@dataclass(frozen=True, slots=True)
class ReplicateDifference(Aggregate):
    """The sum of round(d x / coarse), for d = replicate - weight and a value x in whole steps.

    Both weights are multiples of one common step, in which d is a whole number. It lies between the
    differences of opposite bounds, and is clamped to -`limit` to `limit`, if there is a limit.
    Without a value, x is 1. A row in which one of the columns is missing adds nothing.

    Integers are rounded half up, so the result is exact. Rounding is monotone, and the extremes of
    a product over a rectangle are at its corners. So what a row adds lies between the rounded
    smallest and largest corner.
    """

    subtracts_variance: ClassVar[bool] = True

    column: str
    replicate: Sum
    weight: Sum
    value: Sum | None = None
    limit: int | None = None
    coarse: int = 1

    @classmethod
    def of(
        cls, replicate: Sum, weight: Sum, value: Sum | None, limit: Fraction | None
    ) -> ReplicateDifference:
        """Return the sum of differences; `limit` is their largest size, in the weights' unit."""
        plain = cls(replicate.column, replicate, weight, value)
        if limit is not None:
            plain = replace(plain, limit=int(limit / plain.difference_step))
        return replace(plain, coarse=coarse_step(max(abs(plain.least), abs(plain.most))))

    @property
    def difference_step(self) -> Fraction:
        """The largest step of which the steps of both weights are multiples."""
        one, other = self.replicate.step, self.weight.step
        return Fraction(
            gcd(one.numerator * other.denominator, other.numerator * one.denominator),
            one.denominator * other.denominator,
        )

    @property
    def multipliers(self) -> tuple[int, int]:
        """The numbers of common steps in a step of the replicate, and in one of the weight."""
        step = self.difference_step
        return int(self.replicate.step / step), int(self.weight.step / step)

    @property
    def weighted_total(self) -> Sum | ProductSum:
        """The weighted count or sum whose differences these are."""
        return self.weight if self.value is None else ProductSum.of(self.value, self.weight)

    @property
    def factors(self) -> tuple[Sum, ...]:
        """The sums of the single columns that are read."""
        return (self.replicate, self.weight, *([] if self.value is None else [self.value]))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the weights and of the value, none of which may be missing."""
        return tuple(dict.fromkeys(one.column for one in self.factors))

    @property
    def unclamped_differences(self) -> tuple[int, int]:
        """The smallest and the largest difference of the weights, in common steps."""
        a, b = self.multipliers
        low = a * self.replicate.lower - b * self.weight.upper
        return low, a * self.replicate.upper - b * self.weight.lower

    @property
    def differences(self) -> tuple[int, int]:
        """The smallest and the largest difference after it is clamped, in common steps."""
        low, high = self.unclamped_differences
        if self.limit is None:
            return low, high
        return (
            min(max(low, -self.limit), self.limit),
            min(max(high, -self.limit), self.limit),
        )

    @property
    def largest_product(self) -> int:
        """The largest number that is computed for a row, before it is rounded to coarse steps."""
        # Large terms may have a small difference: each term must fit, too.
        pairs = zip(self.factors[:2], self.multipliers, strict=True)
        terms = [end * times for one, times in pairs for end in (one.lower, one.upper)]
        difference = max(map(abs, (*terms, *self.unclamped_differences, *self.differences)))
        if self.value is None:
            return difference
        return difference * max(abs(self.value.lower), abs(self.value.upper), 1)

    @property
    def _corners(self) -> list[int]:
        """The products at the corners of the bounds, rounded, in steps of products."""
        values = (1,) if self.value is None else (self.value.lower, self.value.upper)
        products = [d * x for d in self.differences for x in values]
        return [(product + self.coarse // 2) // self.coarse for product in products]

    @property
    def least(self) -> int:
        """The minimum that one row adds, in steps of products."""
        return min(self._corners)

    @property
    def most(self) -> int:
        """The maximum that one row adds, in steps of products."""
        return max(self._corners)

    @property
    def step(self) -> Fraction:
        """The step of products, in the product of the columns' units."""
        step = self.difference_step * self.coarse
        return step if self.value is None else step * self.value.step

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: rows per group times the largest product, or difference."""
        return sum_sensitivity(self.least, self.most, unit, neighbours, cells)

    @property
    def description(self) -> str:
        """Return the description of what is subtracted, multiplied and summed."""
        limit = ""
        if self.limit is not None:
            most = plain_text(self.limit * self.difference_step)
            limit = f", each difference clamped to -{most} to {most}"
        times = "" if self.value is None else f", times '{self.value.column}'"
        coarse = f", rounded to multiples of {plain_text(self.step)}" * (self.coarse > 1)
        return (
            f"sum of the weights '{self.replicate.column}' less '{self.weight.column}'{times}, "
            f"each value clamped to its bounds and rounded to its step{limit}{coarse}"
        )

    @property
    def lattice(self) -> Lattice:
        """The steps of the products."""
        return Lattice(lower=self.least, upper=self.most, step=self.step)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the unit of the weights, times that of the value."""
        names = [self.weight.column, *([] if self.value is None else [self.value.column])]
        return " x ".join(unit for unit in (unit_of(name, columns) for name in names) if unit)

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return f"{rows} rows of {self.least} to {self.most} steps"

    def evenly_spread(self, rows: int) -> int:
        """Return 0, because replicate weights are the weight on average."""
        return 0

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the largest absolute value of a product."""
        return max(abs(self.least), abs(self.most))
