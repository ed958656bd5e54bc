"""What a query measures, and what it publishes of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Sensitivity
from dprelease.query.aggregate import Aggregate, Choice, Partitions, Quantile, Sum, Tree
from dprelease.query.post import NOTHING, PostProcessing
from dprelease.schema.mechanism import MechanismSpec


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

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return self.aggregate.step

    @property
    def error_step(self) -> Fraction:
        """Return what one step of the mechanism's error is, in `error_unit`.

        Errors of quantiles are in ranks: b points of score are one row.
        """
        if isinstance(self.aggregate, Quantile):
            return Fraction(1, self.aggregate.at.denominator)
        if isinstance(self.aggregate, Tree):
            return Fraction(1)
        return self.step

    @property
    def error_unit(self) -> str:
        """Return the unit of errors: the column's own, or rows for what is chosen."""
        if isinstance(self.aggregate, Partitions):
            return "units"
        return "rows" if self.is_choice else self.unit

    @property
    def is_vector(self) -> bool:
        """Return whether noise is added to true numbers."""
        return not isinstance(self.aggregate, Choice | Partitions)

    @property
    def is_choice(self) -> bool:
        """Return whether what counts is how often each candidate occurs in a cell."""
        return isinstance(self.aggregate, Choice)


class Form(StrEnum):
    """How a published column is computed from noisy vectors; all but the first are fractions."""

    MEASURED = "measured"
    """The vector itself."""
    SUM = "sum"
    """A centred sum and a count: sum + center * count."""
    MEAN = "mean"
    """A centred sum and a count: center + sum / count, within the bounds."""
    RATIO = "ratio"
    """A sum over a sum."""
    VARIANCE = "variance"
    """Centred squares, a centred sum and a count: the sample variance, at least 0."""
    STDDEV = "stddev"
    """The square root of the variance."""
    QUANTILE = "quantile"
    """A quantile read from a tree of counts."""
    CANDIDATE = "candidate"
    """The label of a chosen candidate."""


FRACTIONS = frozenset({Form.MEAN, Form.RATIO, Form.VARIANCE, Form.STDDEV})


@dataclass(frozen=True, slots=True)
class Published:
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
        if self.form in (Form.MEASURED, Form.SUM, Form.QUANTILE):
            return self.parts[0].step
        return None

    @staticmethod
    def _rows(count: Measurement) -> str:
        """Return of which rows something is computed, if not of all of them."""
        column = count.aggregate.column
        return "" if column is None else f", of rows with '{column}' present"

    @property
    def formula(self) -> str:
        """Return how it is computed from the measurements, in words."""
        names = [f"[{part.name}]" for part in self.parts]
        total = self.parts[0].aggregate
        center = plain_text(total.center * total.step) if isinstance(total, Sum) else ""
        match self.form:
            case Form.SUM:
                return f"{names[0]} + {center} x {names[1]}"
            case Form.MEAN:
                within = "within the column's bounds"
                return f"{center} + {names[0]} / {names[1]}, {within}{self._rows(self.parts[1])}"
            case Form.RATIO:
                sides = [part.aggregate for part in self.parts]
                both = any(isinstance(side, Sum) and side.beside for side in sides)
                return f"{names[0]} / {names[1]}" + ", of rows with both present" * both
            case Form.VARIANCE | Form.STDDEV:
                text = (
                    f"sample variance from {names[0]} (squares), {names[1]} (sum) and {names[2]} "
                    f"(rows), within what the bounds allow{self._rows(self.parts[2])}"
                )
                return text if self.form is Form.VARIANCE else f"square root of the {text}"
            case Form.QUANTILE:
                return f"{plain_text(self.at or Fraction(0))} quantile read from {names[0]}"
            case Form.CANDIDATE:
                return f"label of {names[0]}"
            case Form.MEASURED:
                return names[0]
