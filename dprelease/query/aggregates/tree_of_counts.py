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

    The candidates, numbered as in `Quantile`, are halved `levels` times; a row counts once in each
    level. Trees are only used for privacy units with one row per group, because several rows of one
    unit could fall into the same node.
    """

    is_vector: ClassVar[bool] = False
    is_choice: ClassVar[bool] = True
    sums_weights: ClassVar[bool] = True
    error_unit: ClassVar[str] = ROWS

    column: str
    lower: int
    upper: int
    base: Fraction
    stride: int
    time_unit: str = ""

    @property
    def step(self) -> Fraction:
        """The step between candidates, in the column's unit."""
        return self.base

    @property
    def error_step(self) -> Fraction:
        """The number 1, because errors are in ranks."""
        return Fraction(1)

    @property
    def candidates(self) -> int:
        """The number of candidates."""
        return (self.upper - self.lower) // self.stride + 1

    @property
    def levels(self) -> int:
        """The number of times that the candidates are halved."""
        return max(1, (self.candidates - 1).bit_length())

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: one node per level and group, or two if rows may be replaced."""
        if unit.most_rows_per_group != 1:
            raise ValueError("a tree is for units with one row in a group")
        slots = min(unit.most_groups, cells) * self.levels
        # A row that is replaced leaves one node of a level and enters another.
        nodes = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return Sensitivity(slots, (Move(1, nodes),))

    @property
    def description(self) -> str:
        """Return the description of what is counted."""
        return f"counts of '{self.column}' in halves of its values, {self.levels} times halved"

    @property
    def lattice(self) -> Lattice:
        """The steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the column's unit."""
        return unit_of(self.column, columns)

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return "a node of one level of the tree"
