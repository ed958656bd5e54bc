"""Counts in successively halved ranges of a column's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dprelease.privacy.unit import Move, Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import ROWS, Aggregate, unit_of
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice


@dataclass(frozen=True, slots=True)
class Tree(Aggregate):
    """Counts of values in successively halved ranges, from which any quantile can be read.

    `levels` halvings of candidates numbered as in `Quantile`; a row counts once in each level. Only
    for privacy units with one row per group: several rows could fall into one node.
    """

    is_vector: ClassVar[bool] = False
    is_choice: ClassVar[bool] = True
    paid_together: ClassVar[bool] = True
    error_unit: ClassVar[str] = ROWS

    column: str
    lower: int
    upper: int
    base: Fraction
    stride: int

    @property
    def step(self) -> Fraction:
        """Return the step between candidates, in the column's unit."""
        return self.base

    @property
    def error_step(self) -> Fraction:
        """Return 1: errors are in ranks."""
        return Fraction(1)

    @property
    def candidates(self) -> int:
        """Return the number of values."""
        return (self.upper - self.lower) // self.stride + 1

    @property
    def levels(self) -> int:
        """Return how often the candidates are halved."""
        return max(1, (self.candidates - 1).bit_length())

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return one node in each level of each group; two where a row may be replaced."""
        if unit.max_rows_per_group != 1:
            raise ValueError("a tree is for units with one row in a group")
        slots = min(unit.max_groups, cells) * self.levels
        nodes = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return Sensitivity(slots, (Move(1, nodes),))

    @property
    def words(self) -> str:
        """Return what is counted."""
        return f"counts of '{self.column}' in halves of its values, {self.levels} times halved"

    @property
    def lattice(self) -> Lattice:
        """Return the steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the column's unit."""
        return unit_of(self.column, columns)

    def each(self, rows: int) -> str:
        """Return, in words, the contribution of one privacy unit to a group."""
        return "a node of one level of the tree"
