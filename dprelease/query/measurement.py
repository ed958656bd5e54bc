"""What a query measures, and the columns that it publishes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dprelease.privacy.unit import Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.post import NOTHING, PostProcessing
from dprelease.schema.mechanism import MechanismSpec

DECLARED, IMPLIED = "declared", "implied"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One noisy vector of integers, one for each cell; several columns may be computed from it."""

    name: str
    aggregate: Aggregate
    sensitivity: Sensitivity
    unit: str
    mechanism: MechanismSpec
    weight: Fraction
    asked_by: str
    """The declared column that it is charged for."""
    confidence: Fraction | None = None
    """Confidence of the declared margin of error."""
    wanted: Fraction | None = None
    """Declared margin of error, in the column's unit."""
    own: str = ""
    """The column, if its noise must not be shared."""
    of_family: bool = False
    """Whether it belongs to consistent tables, and is weighted by its variance."""
    exact: str = ""
    """How its true values are published, outside the guarantee: `DECLARED` as an invariant, or
    `IMPLIED`, as sums of one. Empty if noise is added, as for nearly all."""

    finds_keys: bool = False
    """Whether it selects private keys; a column may have the same name elsewhere."""

    @property
    def step(self) -> Fraction:
        """Return the step, in the column's unit."""
        return self.aggregate.step

    @property
    def error_step(self) -> Fraction:
        """Return one step of the mechanism's error, in `error_unit`."""
        return self.aggregate.error_step

    @property
    def error_unit(self) -> str:
        """Return the unit of errors: the column's own, or rows for selections."""
        return self.aggregate.error_unit or self.unit

    @property
    def is_vector(self) -> bool:
        """Return whether noise is added to true numbers."""
        return self.aggregate.is_vector

    @property
    def is_choice(self) -> bool:
        """Return whether the number of occurrences of each candidate in a cell is what counts."""
        return self.aggregate.is_choice


class Form(ABC):
    """How a published column is computed from noisy vectors; subclasses are in `query/forms`.

    Subclasses are frozen dataclasses without fields, so that two of one class are equal.
    """

    __slots__ = ()

    on_lattice: ClassVar[bool] = True
    """Whether published values are multiples of the first part's step; otherwise fractions or
    labels."""

    apart: ClassVar[bool] = False
    """Whether each of several parts becomes a column."""

    @abstractmethod
    def formula(self, column: OutputColumn) -> str:
        """Return how a column is computed from the measurements, in words."""

    def unit(self, units: Sequence[str]) -> str:
        """Return the unit of the published values, from the units of the parts."""
        return units[0]

    def largest_shift(self, column: OutputColumn) -> int:
        """Return how far one privacy unit moves any total behind a column, in steps."""
        return max(part.sensitivity.largest_shift for part in column.parts)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the published table.

    `parts`: the measurements that it is computed from, in the order that its form expects.
    """

    name: str
    form: Form
    parts: tuple[Measurement, ...]
    unit: str
    margin: Fraction | None = None
    """Confidence of the margin of error that is published with it."""
    post: PostProcessing = NOTHING
    at: Fraction | None = None
    """The fraction of values below, for a quantile read from a tree."""

    @property
    def step(self) -> Fraction | None:
        """Return the step of the published values; None for fractions and labels."""
        return self.parts[0].step if self.form.on_lattice else None

    @property
    def part_names(self) -> list[str]:
        """Return the names of the parts, as used in formulas."""
        return [f"[{part.name}]" for part in self.parts]

    @property
    def formula(self) -> str:
        """Return how it is computed from the measurements, in words."""
        return self.form.formula(self)


def read_at(measurement: str, at: Fraction) -> str:
    """Return the name among noised vectors of a quantile that is read from a tree."""
    return f"{measurement}@{at}"
