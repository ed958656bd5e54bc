"""The range of the values of an expression: its bounds, and the steps between its values.

A bound that is None is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.numerics.rounding import plain_text

EXACT = 2**53
"""Integers up to this number are exact in floats, with which expressions are computed."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The range of the values of an expression.

    All values are multiples of `step`, unless it is None; 0 is the step of the constant 0. `grid`
    is a step to which values may be rounded before they are summed, if columns declare one.
    `missing` says that the value may be NULL.
    """

    lower: Fraction | None = None
    upper: Fraction | None = None
    step: Fraction | None = None
    grid: Fraction | None = None
    missing: bool = True

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds are finite."""
        return self.lower is not None and self.upper is not None

    @property
    def is_whole(self) -> bool:
        """Whether all values are integers that floats can hold."""
        ends = [abs(end) for end in (self.lower, self.upper) if end is not None]
        is_exact = all(end <= EXACT for end in ends)
        return self.step is not None and self.step.denominator == 1 and is_exact

    @property
    def constant(self) -> Fraction | None:
        """The value of a constant; None if the value may differ between rows."""
        return self.lower if self.lower == self.upper and not self.missing else None


UNBOUNDED = ValueRange()


def minus(end: Fraction | None) -> Fraction | None:
    """Return the negative of a bound."""
    return None if end is None else -end


def plus(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    """Return the sum of two bounds, which is infinite if one of them is."""
    return None if left is None or right is None else left + right


def with_steps(found: ValueRange, *parts: ValueRange) -> ValueRange:
    """Return the range with the largest steps of which the values of all parts are multiples."""
    steps, grids = [part.step for part in parts], [part.grid for part in parts]
    return replace(found, step=common_step(steps), grid=common_step(grids))


def common_step(steps: Iterable[Fraction | None]) -> Fraction | None:
    """Return the greatest common divisor of steps; None if one of them is not known."""
    common = Fraction(0)
    for step in steps:
        if step is None:
            return None
        bottom = math.lcm(common.denominator, step.denominator)
        common = Fraction(math.gcd(int(common * bottom), int(step * bottom)), bottom)
    return common


def corners(left: ValueRange, right: ValueRange) -> list[Fraction] | None:
    """Return the products of all pairs of bounds; None if a bound is infinite."""
    if left.lower is None or left.upper is None or right.lower is None or right.upper is None:
        return None
    return [a * b for a in (left.lower, left.upper) for b in (right.lower, right.upper)]


def contains_zero(found: ValueRange) -> bool:
    """Return whether a range contains 0, or is unbounded."""
    lower, upper = found.lower, found.upper
    return lower is None or upper is None or lower <= 0 <= upper


def hull(parts: list[ValueRange], *, missing: bool) -> ValueRange:
    """Return the smallest range that contains several ranges."""
    lows, highs = [part.lower for part in parts], [part.upper for part in parts]
    lower = None if None in lows else min(low for low in lows if low is not None)
    upper = None if None in highs else max(high for high in highs if high is not None)
    return with_steps(ValueRange(lower, upper, missing=missing), *parts)


def end_text(end: Fraction | None) -> str:
    """Return a bound as a text."""
    return "infinity" if end is None else plain_text(end)
