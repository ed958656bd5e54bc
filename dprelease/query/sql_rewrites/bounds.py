"""The range of the values of an expression: its bounds, and the steps between its values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

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
