"""The consistent columns of a family: their noise, variances and widths of margins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

from dprelease.consistency.algebra import Table
from dprelease.consistency.structure import MeasuredGrouping, NoiseMoments, Structure
from dprelease.consistency.variances import Variances
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.common.invariant import Invariant
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, tree_of
from dprelease.postprocess.families import FamilyTable
from dprelease.query.forms.centred_moments import MEAN, SUM
from dprelease.query.forms.ratio import RATIO
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.grouping.group_keys import Places
from dprelease.query.measurement import Form, Measurement, OutputColumn
from dprelease.query.quality import CONFIDENCE
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE

SMALL = 8.0
"""Standard deviations of noise, in steps, below which margins have whole steps."""

DERIVED: tuple[Form, ...] = (SUM, MEAN, RATIO)
"""Forms of columns computed from two counts or sums."""

TableMoments = tuple[tuple[Table, NoiseMoments], ...]  # in declared order
MomentsByLevel = tuple[TableMoments, ...]


@dataclass(frozen=True)
class Vector:
    """Properties of a count or sum for making rows, without its family, whose keys may be millions.

    `quantile`: number of standard errors of a margin. `has_margin`: whether a margin is declared.
    `is_shown`: as in `FamilyColumn`. `limits`: the limits of the quality classes, empty if no
    quality is published; `quality_quantile`: number of standard errors of the margins that decide.
    """

    name: str
    measurement: Measurement
    quantile: float
    has_margin: bool
    is_shown: bool
    limits: tuple[Fraction, ...] = ()
    quality_quantile: float = 0.0

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
    """Whether it is published, not only used to compute other columns."""

    @property
    def name(self) -> str:
        """Return the column's name."""
        return self.column.name

    @property
    def measurement(self) -> Measurement:
        """Return the measurement of the column, which is the same in every table."""
        return self.column.parts[0]

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return self.measurement.step

    @property
    def confidence(self) -> Fraction:
        """Return the confidence of its margins and intervals: the declared one, or 95 %."""
        return self.column.margin or DEFAULT_CONFIDENCE

    @cached_property
    def vector(self) -> Vector:
        """Return the properties of the column that rows are made from."""
        has_margin = self.column.margin is not None
        limits = self.column.quality if self.is_shown else ()
        quality = self.at(CONFIDENCE).quantile if limits else 0.0
        return Vector(
            self.name, self.measurement, self.quantile, has_margin, self.is_shown, limits, quality
        )

    def at(self, confidence: Fraction | None) -> FamilyColumn:
        """Return the column with margins at another confidence."""
        return replace(self, column=replace(self.column, margin=confidence))

    def mechanism_of(self, table: FamilyTable) -> Mechanism:
        """Return the noise of one table's cells."""
        mechanism = table.mechanisms[self.measurement.name]
        if not isinstance(mechanism, Mechanism):
            raise TypeError("a vector has noise")
        return mechanism

    def is_exact(self, placed: PlacedTable) -> bool:
        """Return whether a table's true values are published: no noise, no variance."""
        return isinstance(self.mechanism_of(placed.table), Invariant)

    @cached_property
    def noise_moments(self) -> MomentsByLevel:
        """Return the moments of all tables' noise by level.

        Raises TypeError if noise has no certified variance, which `step.all_findings` rejects.
        """
        return tuple(self._moments_at(level) for level in range(len(self.shape.levels)))

    def _moments_at(self, level: int) -> TableMoments:
        return tuple((one.attributes, self.moments_of(one)) for one in self.shape.at(level))

    def moments_of(self, placed: PlacedTable) -> NoiseMoments:
        """Return the moments of the noise of a measured table; errors as in `noise_moments`."""
        moments = self.mechanism_of(placed.table).variance_bound_and_mean
        if moments is None:
            raise TypeError("noise without a variance has no weight")
        return NoiseMoments(*moments)

    @cached_property
    def variances(self) -> Variances:
        """Return the variances of estimates, before any data is read."""
        shape = self.shape
        groupings = tuple(
            (key.ancestors, key.size, self._moments_at(level))
            for level, key in enumerate(shape.groupings, len(shape.levels))
            if shape.grouping_tables
        )
        return variances_of(shape.sizes, shape.parents, self.noise_moments, groupings)

    @cached_property
    def quantile(self) -> float:
        """Return the number of standard errors of a margin at the confidence of the column.

        It is the normal quantile, or the largest quantile of the noise of a single table if that is
        larger: a sum of independent noise lies between one of its terms and the normal
        distribution. For small noise, and for estimates from one measurement, the steps of the
        lattice count; for sums of large noise they are negligible.
        """
        confidence = float(self.confidence)
        wide = [NormalDist().inv_cdf((1 + confidence) / 2)]
        measured = (*self.shape.placed, *self.shape.grouping_tables)
        for mechanism in dict.fromkeys(self.mechanism_of(one.table) for one in measured):
            moments = mechanism.variance_bound_and_mean
            if moments is not None and moments[0]:
                error = math.sqrt(moments[0])
                in_steps = error < SMALL or len(self.shape.placed) == 1
                width = mechanism.half_width if in_steps else mechanism.unrounded_half_width
                wide.append(width(confidence) / error)
        return math.ceil(max(wide) * 2**20) / 2**20  # without machine-dependent last digits


def consistent_columns(shape: Shape) -> tuple[FamilyColumn, ...]:
    """Return the counts and sums of a family in declared order.

    A column used only to compute others has the position of the first of these.
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
def variances_of(
    sizes: tuple[int, ...],
    parents: tuple[Places, ...],
    noise_moments: MomentsByLevel,
    groupings: tuple[tuple[Places, int, TableMoments], ...],
) -> Variances:
    """Return the variances of a family; the same ones for the same declaration.

    `groupings`: the group of each leaf, the number of groups, and the moments of the noise of the
    measured tables of each grouping; none if no grouping has any.
    """
    levels: list[Mapping[Table, NoiseMoments]] = [dict(level) for level in noise_moments]
    measured = [
        MeasuredGrouping(groups.numbers, size, dict(moments)) for groups, size, moments in groupings
    ]
    return Variances(Structure(sizes, tree_of(parents), levels, 1, measured))
