"""What a query measures, and what it publishes of it."""

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
    """The declared column that pays for it."""
    confidence: Fraction | None = None
    """Confidence of the declared margin of error."""
    wanted: Fraction | None = None
    """Declared margin of error, in the column's unit."""
    own: str = ""
    """The column, if its noise is not to be shared."""
    of_family: bool = False
    """Whether it is one of several that are made to agree, weighed by their variances."""
    exact: str = ""
    """How its true values are published, outside the guarantee: `DECLARED` as an invariant, or
    `IMPLIED`, as the sums of one. Empty for what gets noise, as nearly all does."""

    finds_keys: bool = False
    """Whether it selects keys that are not public; a column may have the same name elsewhere."""

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return self.aggregate.step

    @property
    def error_step(self) -> Fraction:
        """Return what one step of the mechanism's error is, in `error_unit`."""
        return self.aggregate.error_step

    @property
    def error_unit(self) -> str:
        """Return the unit of errors: the column's own, or rows for what is chosen."""
        return self.aggregate.error_unit or self.unit

    @property
    def is_vector(self) -> bool:
        """Return whether noise is added to true numbers."""
        return self.aggregate.is_vector

    @property
    def is_choice(self) -> bool:
        """Return whether what counts is how often each candidate occurs in a cell."""
        return self.aggregate.is_choice


class Form(ABC):
    """How a published column is computed from noisy vectors; those of `query/forms`.

    Subclasses are frozen dataclasses without fields, so that two of one class are equal.
    """

    __slots__ = ()

    on_lattice: ClassVar[bool] = True
    """Whether what is published lies on the lattice of the first part; else fractions or labels."""

    apart: ClassVar[bool] = False
    """Whether each part is a column of its own, where there are several."""

    @abstractmethod
    def formula(self, column: OutputColumn) -> str:
        """Return how a column is computed from the measurements, in words."""

    def unit(self, units: Sequence[str]) -> str:
        """Return the unit of what is published, given those of the parts."""
        return units[0]

    def largest_shift(self, column: OutputColumn) -> int:
        """Return how far one unit moves any total that a column is computed by, lattice steps."""
        return max(part.sensitivity.largest_shift for part in column.parts)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the published table.

    `parts`: the measurements that it is computed from, in the order that its form names them.
    """

    name: str
    form: Form
    parts: tuple[Measurement, ...]
    unit: str
    margin: Fraction | None = None
    """Confidence of the margin of error that is published beside it."""
    post: PostProcessing = NOTHING
    at: Fraction | None = None
    """The part of the values that lie below, of a quantile read from a tree."""

    @property
    def step(self) -> Fraction | None:
        """Return the lattice step of what is published; None for fractions and labels."""
        return self.parts[0].step if self.form.on_lattice else None

    @property
    def part_names(self) -> list[str]:
        """Return the names of the parts, as formulas have them."""
        return [f"[{part.name}]" for part in self.parts]

    @property
    def formula(self) -> str:
        """Return how it is computed from the measurements, in words."""
        return self.form.formula(self)


def read_at(measurement: str, at: Fraction) -> str:
    """Return the name of a quantile among noised vectors, read from the tree of a measurement."""
    return f"{measurement}@{at}"
