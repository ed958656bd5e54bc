"""Rows whose value reaches a declared one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate, sum_sensitivity
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED
from dprelease.schema.number_bounds import Lattice


@dataclass(frozen=True, slots=True)
class CountAtLeast(Aggregate):
    """Rows in which a column, rounded to its lattice, is at `least` steps or above."""

    column: str
    lower: int
    upper: int
    base: Fraction
    least: int

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        return sum_sensitivity(0, 1, unit, neighbours, cells)

    @property
    def description(self) -> str:
        return f"count of rows in which '{self.column}' is {plain_text(self.least * self.base)} or more"

    @property
    def lattice(self) -> Lattice:
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)


def _at_least(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    lattice = columns.lattice(declared)
    if lattice is None:
        return None
    _, asked = declared.spec.aggregate_and_options
    least = -(-asked.value // lattice.step)
    count = CountAtLeast(declared.column, lattice.lower, lattice.upper, lattice.step, int(least))
    return ColumnParts(MEASURED, [("", count)])


BY_WORD = {"at_least": _at_least}
