"""What every aggregate tells of itself: how far one unit moves it, its units and its words."""

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
    """One whole number for each cell, or one candidate chosen in each.

    Two that are equal are one measurement. Subclasses are frozen dataclasses; what they leave as it
    is here is what holds of a count. No other stage asks which class it has: it would have to know
    all of them.
    """

    __slots__ = ()

    column: str | None
    """What it is of; None for whole rows."""

    is_vector: ClassVar[bool] = True
    """Whether noise is added to one true number in each cell."""

    is_choice: ClassVar[bool] = False
    """Whether what counts is how often each candidate occurs in a cell."""

    by_rank: ClassVar[bool] = False
    """Whether a declared value is chosen by its number of rows; other choices are on a lattice."""

    is_distinct: ClassVar[bool] = False
    """Whether a cell holds the number of different ids or values, and no sum over its rows."""

    selects_keys: ClassVar[bool] = False
    """Whether it decides which cells there are."""

    mechanisms: ClassVar[tuple[str, ...]] = ()
    """The ways to choose that it can be chosen by, the best one first; without any it has noise."""

    paid_together: ClassVar[bool] = False
    """Whether columns that share it pay by the sum of their weights, and not by the largest."""

    error_unit: ClassVar[str] = ""
    """What errors are counted in; empty for the unit of the values."""

    @abstractmethod
    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far one unit can move its cells, in lattice steps."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Return what is counted or added up, and of which rows, for plan and manifest."""

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return Fraction(1)

    @property
    def least(self) -> int:
        """Return the least that one row adds to a cell, lattice steps."""
        return 0

    @property
    def lowest(self) -> int:
        """Return the least value that a row can have, lattice steps."""
        return self.least

    @property
    def error_step(self) -> Fraction:
        """Return what one step of the mechanism's error is, in the unit of errors."""
        return self.step

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns that it reads."""
        return () if self.column is None else (self.column,)

    @property
    def reads_values(self) -> bool:
        """Return whether what a row adds depends on a value; else all rows add the same."""
        return self.column is not None

    @property
    def by_places(self) -> bool:
        """Return whether a value counts by its place among the declared ones, as a key does."""
        return False

    @property
    def lattice(self) -> Lattice | None:
        """Return the steps that values are clamped and rounded to; None if they are not numbers."""
        return None

    @property
    def candidates(self) -> int:
        """Return how many values can be chosen; 0 where none is."""
        return 0

    @property
    def levels(self) -> int:
        """Return how many draws of noise an answer is made of."""
        return 1

    @property
    def part(self) -> Fraction | None:
        """Return the part of the values that lie below a chosen one; None for all else."""
        return None

    @property
    def adds_up(self) -> bool:
        """Return whether its value is the sum of the values that parties have, each by itself."""
        return False

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the unit of its values, in a table with these columns."""
        return ROWS

    def each(self, rows: int) -> str:
        """Return in words what a group holds of one unit, which has at most so many rows there."""
        return f"{rows} rows of one step"

    def evenly_spread(self, rows: int) -> int:
        """Return what a cell of so many rows holds whose values lie evenly between the bounds."""
        return rows

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the most, in size, that one row of the engine's adds to a vector."""
        return sensitivity.largest_shift


def narrow_aggregate(aggregate: Aggregate, kind: type[Kind]) -> Kind:
    """Return an aggregate as one of the class that a form or a mechanism is made for.

    Raises
    ------
    TypeError
        If it is of another: then something was put together that does not fit.
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
    predicate drops it), so the difference reaches from min(least, 0) to max(most, 0).
    """
    rows = unit.max_rows_per_group
    return Sensitivity.of(
        per_group=rows * max(abs(least), abs(most)),
        within_group=rows * (max(most, 0) - min(least, 0)),
        unit=unit,
        neighbours=neighbours,
        cells=cells,
    )
