"""The base class of aggregates: their sensitivity to one privacy unit, units and descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, TypeVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.schema.columns import Column, DateColumn, TimestampColumn
from dprelease.schema.number_bounds import Lattice

ROWS, IDS, DAYS, SECONDS = "rows", "ids", "days", "seconds"


Kind = TypeVar("Kind", bound="Aggregate")


class Aggregate(ABC):
    """One integer for each cell, or one candidate selected in each cell.

    Two equal aggregates become one measurement. Subclasses are frozen dataclasses; the defaults of
    this class are those of a count. Other stages never test the class of an aggregate, because
    then a new aggregate would require changes in those stages.
    """

    __slots__ = ()

    column: str | None
    """The aggregated column; None for whole rows."""

    is_vector: ClassVar[bool] = True
    """Whether noise is added to one true number in each cell."""

    is_choice: ClassVar[bool] = False
    """Whether a candidate is selected in each cell, by how often each candidate occurs."""

    by_rank: ClassVar[bool] = False
    """Whether the candidates are declared values, selected by their number of rows.

    The candidates of other aggregates are numeric steps."""

    is_distinct: ClassVar[bool] = False
    """Whether a cell holds a number of different ids or values, which is not a sum over rows."""

    selects_keys: ClassVar[bool] = False
    """Whether the aggregate decides which cells are published."""

    mechanisms: ClassVar[tuple[str, ...]] = ()
    """The supported selection mechanisms, the best one first; empty if noise is added instead."""

    sums_weights: ClassVar[bool] = False
    """Whether columns that share the aggregate have the sum of their weights, not the largest."""

    subtracts_variance: ClassVar[bool] = False
    """Whether the variance of the noise is subtracted, so that it must be certified, and the noise
    symmetric."""

    error_unit: ClassVar[str] = ""
    """The unit of errors; empty for the unit of the values."""

    @property
    def time_unit(self) -> str:
        """`DAYS` or `SECONDS` from 1970-01-01 if the values are dates or timestamps, or empty."""
        return ""

    @abstractmethod
    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far one privacy unit can change the cells of the aggregate, in steps."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Return the description of the aggregate and its rows, for plan and manifest."""

    @property
    def step(self) -> Fraction:
        """The step of the values, in the column's unit."""
        return Fraction(1)

    @property
    def least(self) -> int:
        """The minimum that one row adds to a cell, in steps."""
        return 0

    @property
    def lowest(self) -> int:
        """The minimum value that a row can have, in steps."""
        return self.least

    @property
    def error_step(self) -> Fraction:
        """The size of one step of the mechanism's error, in the unit of errors."""
        return self.step

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the aggregate reads."""
        return () if self.column is None else (self.column,)

    @property
    def factors(self) -> tuple[Aggregate, ...]:
        """The aggregates of single columns from whose values a row's contribution follows."""
        return (self,)

    @property
    def reads_values(self) -> bool:
        """Whether a row's contribution depends on a value; otherwise all rows add the same."""
        return self.column is not None

    @property
    def by_places(self) -> bool:
        """Whether a value is represented by its position among the declared values, as in keys."""
        return False

    @property
    def lattice(self) -> Lattice | None:
        """The steps to which values are clamped and rounded; None if the values are no numbers."""
        return None

    @property
    def candidates(self) -> int:
        """The number of selectable values; 0 if the aggregate selects nothing."""
        return 0

    @property
    def levels(self) -> int:
        """The number of noise draws that enter one result."""
        return 1

    @property
    def part(self) -> Fraction | None:
        """The fraction of values below a selected quantile; None for other aggregates."""
        return None

    @property
    def interval_end(self) -> tuple[int, Fraction] | None:
        """The side of an end of an interval, -1 or 1, and its largest probability of a miss.

        None for other aggregates."""
        return None

    @property
    def most_of_unit(self) -> int | None:
        """The largest absolute sum of one privacy unit in a cell, in steps; None if unlimited."""
        return None

    @property
    def counted_kind(self) -> str:
        """What is counted, one each: `ROWS` or `IDS`; empty for other aggregates."""
        return ""

    @property
    def clipped_sum(self) -> Fraction | None:
        """The absolute value to which the sum of one privacy unit in a cell is clipped, if any."""
        return None

    @property
    def adds_up(self) -> bool:
        """Whether the result for all parties together is the sum of the results of the parties."""
        return False

    def counts_people(self, unit: PrivacyUnit) -> bool:
        """Return whether a cell's value is the number of people with one of the counted rows."""
        return False

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the unit of the aggregate's values, in a table with these columns."""
        return ROWS

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit with `rows` rows contributes to a group."""
        return f"{rows} rows of one step"

    def evenly_spread(self, rows: int) -> int:
        """Return the value of a cell of `rows` rows with values spread evenly over the bounds."""
        return rows

    def most_added(self, sensitivity: Sensitivity) -> int:
        """Return the largest absolute number that one row of the engine adds to a vector."""
        return sensitivity.largest_shift


def narrow_aggregate(aggregate: Aggregate, kind: type[Kind]) -> Kind:
    """Return the same aggregate, checked to be of the class that a form or a mechanism needs.

    Raises TypeError if the aggregate is of another class, because mismatched parts were combined.
    """
    if not isinstance(aggregate, kind):
        raise TypeError(f"{kind.__name__} is needed, not {type(aggregate).__name__}")
    return aggregate


def unit_of(column: str, columns: Mapping[str, Column]) -> str:
    """Return the unit of a column's steps: that of times, the declared unit of numbers, or ""."""
    return time_unit_of(columns[column]) or getattr(columns[column], "unit", None) or ""


def time_unit_of(column: Column) -> str:
    """Return the unit of the steps of dates or timestamps; empty for other columns."""
    if isinstance(column, TimestampColumn):
        return SECONDS
    return DAYS if isinstance(column, DateColumn) else ""


def presence_text(beside: tuple[str, ...]) -> str:
    """Return a text on the other columns that must not be missing; empty if there are none."""
    if not beside:
        return ""
    names = " and ".join(f"'{name}'" for name in beside)
    return f", of rows in which {names} {'is' if len(beside) == 1 else 'are'} not missing either"


def sum_sensitivity(
    least: int,
    most: int,
    unit: PrivacyUnit,
    neighbours: Neighbours,
    cells: int,
    most_of_unit: int | None = None,
) -> Sensitivity:
    """Return the sensitivity of a sum to which one row adds from `least` to `most` steps.

    Within a group, a row may be replaced by another row or by no row (if its value is missing, or
    the predicate drops the row), so one row contributes from min(least, 0) to max(most, 0).

    If `most_of_unit` is not None, the sum of a unit in a cell is clipped to -`most_of_unit` to
    `most_of_unit`. With r rows per group, a unit then adds to a cell a number from
    max(r min(least, 0), -`most_of_unit`) to min(r max(most, 0), `most_of_unit`). So its cell moves
    by at most the larger absolute value of these two ends if the unit appears or disappears, and by
    at most their difference if other rows replace its rows. Clipping makes no sum larger, so n rows
    still move a cell by at most n times the largest absolute value of a row.
    """
    rows = unit.most_rows_per_group
    lowest, highest = rows * min(least, 0), rows * max(most, 0)
    if most_of_unit is not None:
        lowest, highest = max(lowest, -most_of_unit), min(highest, most_of_unit)
    return Sensitivity.of(
        per_row=max(abs(least), abs(most)),
        per_group=max(-lowest, highest),
        within_group=highest - lowest,
        unit=unit,
        neighbours=neighbours,
        cells=cells,
    )
