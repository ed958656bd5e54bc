"""The base of aggregates: sensitivity to one privacy unit, units and descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, TypeVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

ROWS = "rows"


Kind = TypeVar("Kind", bound="Aggregate")


class Aggregate(ABC):
    """One integer for each cell, or one candidate selected in each cell.

    Two equal aggregates are one measurement. Subclasses are frozen dataclasses; the defaults here
    are those of a count. Other stages never test the class of an aggregate, because they would have
    to know all of them.
    """

    __slots__ = ()

    column: str | None
    """The aggregated column; None for whole rows."""

    is_vector: ClassVar[bool] = True
    """Whether noise is added to one true number in each cell."""

    is_choice: ClassVar[bool] = False
    """Whether the number of occurrences of each candidate in a cell is what counts."""

    by_rank: ClassVar[bool] = False
    """Whether a declared value is selected by its number of rows; other candidates are numeric
    steps."""

    is_distinct: ClassVar[bool] = False
    """Whether a cell holds the number of different ids or values, which is no sum over its rows."""

    selects_keys: ClassVar[bool] = False
    """Whether it decides which cells are published."""

    mechanisms: ClassVar[tuple[str, ...]] = ()
    """Selection mechanisms that it supports, the best one first; if empty, noise is added."""

    paid_together: ClassVar[bool] = False
    """Whether columns that share it have the sum of their weights, and not the largest weight."""

    error_unit: ClassVar[str] = ""
    """The unit of errors; empty for the unit of the values."""

    @abstractmethod
    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far one privacy unit can move its cells, in steps."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Return what is counted or summed, and over which rows, for plan and manifest."""

    @property
    def step(self) -> Fraction:
        """Return the step, in the column's unit."""
        return Fraction(1)

    @property
    def least(self) -> int:
        """Return the least that one row adds to a cell, in steps."""
        return 0

    @property
    def lowest(self) -> int:
        """Return the least value that a row can have, in steps."""
        return self.least

    @property
    def error_step(self) -> Fraction:
        """Return one step of the mechanism's error, in the unit of errors."""
        return self.step

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns that it reads."""
        return () if self.column is None else (self.column,)

    @property
    def reads_values(self) -> bool:
        """Return whether a row's contribution depends on a value; otherwise all rows add alike."""
        return self.column is not None

    @property
    def by_places(self) -> bool:
        """Return whether values count by their position among the declared ones, as in keys."""
        return False

    @property
    def lattice(self) -> Lattice | None:
        """Return the steps to which values are clamped and rounded; None if not numeric."""
        return None

    @property
    def candidates(self) -> int:
        """Return the number of selectable values; 0 if nothing is selected."""
        return 0

    @property
    def levels(self) -> int:
        """Return how many draws of noise one answer contains."""
        return 1

    @property
    def part(self) -> Fraction | None:
        """Return the fraction of values below a selected quantile; None for other aggregates."""
        return None

    @property
    def adds_up(self) -> bool:
        """Return whether its value is the sum of the values of the parties."""
        return False

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the unit of its values, in a table with these columns."""
        return ROWS

    def each(self, rows: int) -> str:
        """Return, in words, the contribution of one privacy unit with so many rows to a group."""
        return f"{rows} rows of one step"

    def evenly_spread(self, rows: int) -> int:
        """Return the value of a cell with so many rows, spread evenly over the bounds."""
        return rows

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the largest absolute value that one row of the engine adds to a vector."""
        return sensitivity.largest_shift


def narrow_aggregate(aggregate: Aggregate, kind: type[Kind]) -> Kind:
    """Return an aggregate as one of the class that a form or a mechanism needs.

    Raises
    ------
    TypeError
        If it is of another class: then mismatched parts were combined.
    """
    if not isinstance(aggregate, kind):
        raise TypeError(f"{kind.__name__} is needed, not {type(aggregate).__name__}")
    return aggregate


def unit_of(column: str, columns: Mapping[str, Column]) -> str:
    """Return the declared unit of a column; empty without one."""
    return getattr(columns[column], "unit", None) or ""


def of_values(
    least: int, most: int, unit: PrivacyUnit, neighbours: Neighbours, cells: int
) -> Sensitivity:
    """Return the sensitivity of a sum to which one row adds from `least` to `most` steps.

    Within a group a row may be replaced by another or by none (its value is missing, or the
    predicate drops it), so the difference ranges from min(least, 0) to max(most, 0).
    """
    rows = unit.max_rows_per_group
    return Sensitivity.of(
        per_group=rows * max(abs(least), abs(most)),
        within_group=rows * (max(most, 0) - min(least, 0)),
        unit=unit,
        neighbours=neighbours,
        cells=cells,
    )
