"""The measurements of a query, and the published columns that are computed from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from dprelease.privacy.unit import Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.post import NO_POST_PROCESSING, PostProcessing
from dprelease.schema.mechanism import MechanismSpec


class Role(StrEnum):
    """The role of a published column."""

    KEY = "key"
    VALUE = "value"
    MARGIN = "margin"
    LOWER = "lower"
    UPPER = "upper"
    STANDARD_ERROR = "standard_error"
    FLAG = "flag"
    LABEL = "label"
    QUALITY = "quality"
    MEASUREMENT = "measurement"


WITH_COMPANIONS = ("", "_moe", "_lower", "_upper", "_label", "_unreliable", "_quality")
"""The endings of the names of a published column and of its companion columns."""


DECLARED, IMPLIED = "declared", "implied"

NO_DESIGN_VARIANCE = (
    "; margins and intervals cover the noise and the rounding alone, and no variance of a sampling "
    "design"
)
"""What the formula of a weighted column adds."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A vector of one noisy integer for each cell, from which several columns may be computed."""

    name: str
    aggregate: Aggregate
    sensitivity: Sensitivity
    unit: str
    mechanism: MechanismSpec
    weight: Fraction
    charged_column: str
    """The declared column for which the measurement is charged."""
    confidence: Fraction | None = None
    """The confidence level of the declared margin of error."""
    wanted: Fraction | None = None
    """The declared margin of error, in the column's unit."""
    own: str = ""
    """The name of the column, if other columns must not share its noise; otherwise empty."""
    of_family: bool = False
    """Whether the measurement belongs to consistent tables, and is weighted by its variance."""
    exact: str = ""
    """Why the true values are published, outside the guarantee; empty if noise is added.

    `DECLARED` marks an invariant, and `IMPLIED` sums of an invariant."""

    finds_keys: bool = False
    """Whether the measurement selects private keys, which its name does not show."""
    adds_cells: bool = False
    """Whether the noise of several cells adds up in a published value, such as a share."""

    @property
    def step(self) -> Fraction:
        """The step of the values, in the column's unit."""
        return self.aggregate.step

    @property
    def error_step(self) -> Fraction:
        """The size of one step of the mechanism's error, in `error_unit`."""
        return self.aggregate.error_step

    @property
    def error_unit(self) -> str:
        """The unit of errors: the column's unit, or rows for selections."""
        return self.aggregate.error_unit or self.unit

    @property
    def is_vector(self) -> bool:
        """Whether noise is added to true numbers."""
        return self.aggregate.is_vector

    @property
    def is_choice(self) -> bool:
        """Whether a candidate is selected in each cell, by how often each candidate occurs."""
        return self.aggregate.is_choice


class Form(ABC):
    """How a published column is computed from noisy vectors; subclasses are in `query/forms`.

    Subclasses are frozen dataclasses without fields, so that two of one class are equal.
    """

    __slots__ = ()

    on_lattice: ClassVar[bool] = True
    """Whether published values are multiples of the first part's step.

    Otherwise the published values are fractions or labels."""

    is_signed: ClassVar[bool] = False
    """Whether values can be negative even if no value of a column is."""

    has_open_ends: ClassVar[bool] = False
    """Whether an end of an interval may be empty, because nothing limits the value there."""

    separates_parts: ClassVar[bool] = False
    """Whether each of several parts becomes a separate column."""

    needs_all_cells: ClassVar[bool] = False
    """Whether a value is computed from the vectors of several cells, and not of its own alone."""

    @abstractmethod
    def formula(self, column: OutputColumn) -> str:
        """Return the formula by which a column is computed from the measurements, as text."""

    def unit(self, units: Sequence[str]) -> str:
        """Return the unit of the published values, from the units of the parts."""
        return units[0]

    def largest_shift(self, column: OutputColumn) -> int:
        """Return how far one privacy unit can change a total of a column's formula, in steps."""
        return max(part.sensitivity.largest_shift for part in column.parts)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key of a table, whose value is the same in all cells of a group.

    The position of a cell's value is the number of the cell // `stride` % `size`.
    """

    name: str
    stride: int
    size: int


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the published table.

    `parts` are the measurements from which the column is computed, in the order that its form
    expects.
    """

    name: str
    form: Form
    parts: tuple[Measurement, ...]
    unit: str
    margin: Fraction | None = None
    """The confidence level of the margin of error that is published with the column, if any."""
    post: PostProcessing = NO_POST_PROCESSING
    at: Fraction | None = None
    """The fraction of values below the quantile, for a quantile that is read from a tree."""
    quality: tuple[Fraction, ...] = ()
    """The limits of the quality classes; empty if no quality is published."""
    interval: Fraction | None = None
    """The confidence level of the interval that is published with a quantile, if any."""
    people: str = ""
    """The name of the noisy vector that counts the people of each cell, if a rule needs it."""
    groups: tuple[GroupKey, ...] = ()
    """The keys within which the total of a share is computed; without them, it is that of all."""

    scale: Fraction = Fraction(1)
    """The factor of the sum of squares in a design variance, as the survey publishes it."""

    is_weighted: bool = False
    """Whether rows are weighted, so that the values estimate more than the rows of the table."""

    @property
    def step(self) -> Fraction | None:
        """The step of the published values; None for fractions and labels."""
        return self.parts[0].step if self.form.on_lattice else None

    @property
    def time_unit(self) -> str:
        """The unit of numbers that are published as dates or timestamps; empty for others."""
        return self.parts[0].aggregate.time_unit

    @property
    def part_names(self) -> list[str]:
        """The names of the parts, as used in formulas."""
        return [f"[{part.name}]" for part in self.parts]

    @property
    def formula(self) -> str:
        """The formula by which the column is computed from the measurements, as text."""
        return self.form.formula(self) + NO_DESIGN_VARIANCE * self.is_weighted


def quantile_vector_name(measurement: str, at: Fraction, side: int = 0) -> str:
    """Return the name of the noised vector with a quantile that is read from a tree.

    `side` is -1 for the lower end of its interval, and 1 for the upper end.
    """
    return f"{measurement}@{at}{('', '.upper', '.lower')[side]}"
