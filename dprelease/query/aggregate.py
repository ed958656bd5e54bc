"""Aggregates; each knows how far one privacy unit can move its cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity


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
    """The sum of a column whose values lie at lower..upper lattice steps."""

    column: str
    lower: int
    upper: int
    step: Fraction

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return rows per group times the largest value, or the largest difference.

        Within a group a row may be replaced by another or by none (its value is missing, or the
        predicate drops it), so the difference reaches from min(lower, 0) to max(upper, 0).
        """
        rows = unit.max_rows_per_group
        return Sensitivity.of(
            per_group=rows * max(abs(self.lower), abs(self.upper)),
            within_group=rows * (max(self.upper, 0) - min(self.lower, 0)),
            unit=unit,
            neighbours=neighbours,
            cells=cells,
        )


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


Aggregate = Count | Sum | CountDistinct
