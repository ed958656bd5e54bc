"""Sums of absolute values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate, sum_sensitivity, unit_of
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice


@dataclass(frozen=True, slots=True)
class AbsoluteSum(Aggregate):
    """The sum of |x| over a column whose values x lie at lower..upper lattice steps."""

    column: str
    lower: int
    upper: int
    base: Fraction

    @property
    def step(self) -> Fraction:
        return self.base

    @property
    def least(self) -> int:
        return max(self.lower, -self.upper, 0)

    @property
    def most(self) -> int:
        return max(abs(self.lower), abs(self.upper))

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        return sum_sensitivity(self.least, self.most, unit, neighbours, cells)

    @property
    def description(self) -> str:
        return f"sum of '{self.column}' without signs"

    @property
    def lattice(self) -> Lattice:
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    @property
    def adds_up(self) -> bool:
        return True

    def unit(self, columns: Mapping[str, Column]) -> str:
        return unit_of(self.column, columns)

    def contribution_text(self, rows: int) -> str:
        return f"{rows} rows of {self.least} to {self.most} steps"

    def most_added(self, sensitivity: Sensitivity) -> int:
        return self.most


def _absolute_sum(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    lattice = columns.lattice(declared)
    if lattice is None:
        return None
    total = AbsoluteSum(declared.column, lattice.lower, lattice.upper, lattice.step)
    return ColumnParts(MEASURED, [("", total)])


BY_WORD = {"absolute_sum": _absolute_sum}
