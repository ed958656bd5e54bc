"""The columns of a family that agree: laws of their noise, variances, and how wide margins are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

from dprelease.consistency.algebra import Table
from dprelease.consistency.structure import Law, Structure
from dprelease.consistency.variances import Variances
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.common.invariant import Invariant
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, tree_of
from dprelease.postprocess.families import FamilyTable
from dprelease.query.forms.centred_moments import MEAN, SUM
from dprelease.query.forms.ratio import RATIO
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.grouping.places import Places
from dprelease.query.measurement import Form, Measurement, OutputColumn
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE

SMALL = 8.0
"""Standard deviations of noise, in steps, below which margins have whole steps."""

DERIVED: tuple[Form, ...] = (SUM, MEAN, RATIO)
"""Forms of columns that are computed from two counts or sums."""

Laws = tuple[tuple[tuple[Table, Law], ...], ...]  # by level, in declared order


@dataclass(frozen=True)
class Vector:
    """What rows of a count or sum are made of: without its family, whose keys may be millions.

    `quantile`: how many standard errors a margin has. `has_margin`: whether one was asked for.
    `is_shown`: as of `Agreed`.
    """

    name: str
    measurement: Measurement
    quantile: float
    has_margin: bool
    is_shown: bool

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return self.measurement.step


@dataclass(frozen=True)
class FamilyColumn:
    """One count or sum of a family."""

    shape: Shape
    column: OutputColumn
    is_shown: bool = True
    """Whether it is published, and not only what others are computed from."""

    @property
    def name(self) -> str:
        """Return the column's name."""
        return self.column.name

    @property
    def measurement(self) -> Measurement:
        """Return the vector that it shows; the same one in every table."""
        return self.column.parts[0]

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return self.measurement.step

    @property
    def confidence(self) -> Fraction:
        """Return that of its margins and intervals: the declared one, or 95 %."""
        return self.column.margin or DEFAULT_CONFIDENCE

    @cached_property
    def vector(self) -> Vector:
        """Return what its rows are made of."""
        has_margin = self.column.margin is not None
        return Vector(self.name, self.measurement, self.quantile, has_margin, self.is_shown)

    def at(self, confidence: Fraction | None) -> FamilyColumn:
        """Return it with margins at another confidence."""
        return replace(self, column=replace(self.column, margin=confidence))

    def law_of(self, table: FamilyTable) -> Mechanism:
        """Return the noise of one table's cells."""
        law = table.laws[self.measurement.name]
        if not isinstance(law, Mechanism):
            raise TypeError("a vector has noise")
        return law

    def is_exact(self, placed: PlacedTable) -> bool:
        """Return whether a table's true values are published: no noise, no variance."""
        return isinstance(self.law_of(placed.table), Invariant)

    @cached_property
    def laws(self) -> Laws:
        """Return the moments of all tables' noise by level.

        Raises
        ------
        TypeError
            If a law has no certified variance, which `findings` refuse.
        """
        return tuple(
            tuple((one.attributes, self._law(one)) for one in self.shape.at(level))
            for level in range(len(self.shape.levels))
        )

    def _law(self, placed: PlacedTable) -> Law:
        moments = self.law_of(placed.table).moments_above
        if moments is None:
            raise TypeError("a law without a variance has no weight")
        return Law(*moments)

    @cached_property
    def variances(self) -> Variances:
        """Return what layer 1 knows before any data."""
        return variances_of(self.shape.sizes, self.shape.parents, self.laws)

    @cached_property
    def quantile(self) -> float:
        """Return how many standard errors a margin has at the column's confidence.

        The normal one, or the largest of the laws by themselves if that is larger: a sum of
        independent noises lies between one of them and the normal law. Of small noise, and where an
        estimate is one measurement, whole steps count; sums of large noise don't see them.
        """
        confidence = float(self.confidence)
        wide = [NormalDist().inv_cdf((1 + confidence) / 2)]
        for law in dict.fromkeys(self.law_of(one.table) for one in self.shape.placed):
            moments = law.moments_above
            if moments is not None and moments[0]:
                error = math.sqrt(moments[0])
                in_steps = error < SMALL or len(self.shape.placed) == 1
                width = law.half_width if in_steps else law.smooth_width
                wide.append(width(confidence) / error)
        return math.ceil(max(wide) * 2**20) / 2**20  # no last digit of a logarithm is in it


def agreed_columns(shape: Shape) -> tuple[FamilyColumn, ...]:
    """Return the counts and sums of a family in declared order.

    Those that only others are computed from stand in the place of the first of these.
    """
    columns = shape.placed[0].table.query.columns
    shown = {column.parts[0].name for column in columns if column.form not in DERIVED}
    found: list[FamilyColumn] = []
    for column in columns:
        if column.form not in DERIVED:
            found.append(FamilyColumn(shape, column))
            continue
        for part in column.parts:
            if part.name not in shown:
                shown.add(part.name)
                alone = OutputColumn(part.name, MEASURED, (part,), part.unit)
                found.append(FamilyColumn(shape, alone, is_shown=False))
    return tuple(found)


@lru_cache(maxsize=8)
def variances_of(sizes: tuple[int, ...], parents: tuple[Places, ...], laws: Laws) -> Variances:
    """Return the variances of a family; the same ones for the same declaration."""
    levels: list[Mapping[Table, Law]] = [dict(level) for level in laws]
    return Variances(Structure(sizes, tree_of(parents), levels, largest=1))
