"""Second check: published estimates solve the normal equations of least squares.

With measurements y of tables S at areas v, of weight w = 1 / variance each, and estimates x of the
same cells, least squares over the cells of the leaves requires for every one of these
    sum over areas v above the leaf and tables S of w (y - mean - x) = 0,
each at the cell of S that contains it. The sum over published x may be off by the fixed-point
error, `standard_errors.rounding_error`.

With exact tables (invariants) the sum is not 0 but a sum of multipliers, one for each of their
cells: at each leaf, a function of the keys of the exact tables of all levels. The difference of two
leaves of one area, which share all exact tables but their own, is a function of the keys of the
latter. The remainder after projecting out such functions is 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprelease.consistency.algebra import Table, subtables
from dprelease.consistency.standard_errors import rounding_error
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import Floats, Integers
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.invariants import invariant_tables
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.postprocess.consistent.reading import MeasuredColumn

SAMPLED = 16
"""Number of leaves whose equations are checked."""

MOST_CELLS = 1 << 20
"""Number of checked finest cells of a leaf, because small tables may have very many together."""


def wrong_equations(
    variances: Variances, measured: MeasuredColumn, published: PublishedColumn
) -> Iterator[str]:
    """Yield leaves at which the equations don't hold. Estimates of all levels must be published."""
    shape = published.shape
    leaves = shape.tree.counts[-1]
    sums = _LeafEquations(variances, measured, published)
    exact = invariant_tables(published.column)
    everywhere = {one.attributes for one in exact}
    below = {one.attributes for one in exact if one.level == len(shape.levels) - 1}
    scale = 2.0 ** (len(shape.sizes) + 1) if exact else 1.0
    for leaf in np.unique(np.linspace(0, leaves - 1, min(SAMPLED, leaves)).astype(int)).tolist():
        residual_sums, tolerance = sums.at(leaf)
        wrong = (
            float(np.abs(_remaining_effects(residual_sums, everywhere)).max()) > scale * tolerance
        )
        if exact and leaf + 1 < leaves and _next_is_sibling(shape, leaf):
            other, other_tolerance = sums.at(leaf + 1)
            difference = float(np.abs(_remaining_effects(other - residual_sums, below)).max())
            wrong |= difference > scale * (tolerance + other_tolerance)
        if wrong:
            name = published.column.name
            yield f"the estimates of '{name}' above leaf {leaf} are not least squares"


@dataclass(frozen=True)
class _LeafEquations:
    """The normal equations at the finest cells of a leaf."""

    variances: Variances
    measured: MeasuredColumn
    published: PublishedColumn

    @cached_property
    def _bounds(self) -> dict[Table, list[int]]:
        tables = {one.attributes for one in self.published.shape.placed}
        return {table: rounding_error(self.variances, table) for table in tables}

    @cached_property
    def _indexes(self) -> list[Integers]:
        return _evenly_spaced_indexes(self.published.shape.sizes)

    def at(self, leaf: int) -> tuple[Floats, float]:
        """Return the weighted sums of residuals at the cells of a leaf, and their tolerance."""
        published, shape = self.published, self.published.shape
        residual_sums = np.zeros([len(values) for values in self._indexes])
        tolerance = 0.0
        for placed, area, leaves in self._tables_with(leaf):
            table, moments = placed.attributes, published.column.moments_of(placed)
            if not moments.variance:
                continue
            y = self.measured.read(placed.level, table, area, area + 1)[0].astype(np.float64)
            x = np.ldexp(
                published.estimates(placed, area, area + 1)[0].astype(float), -published.bits
            )
            weight = 1.0 / float(moments.variance)
            residual_sums += weight * _at_finest_cells(
                y - float(moments.mean) - x, table, self._indexes
            )
            level = min(placed.level, len(shape.levels) - 1)
            bound = leaves * (self._bounds[table][level] + 1) / 2.0**published.bits
            tolerance += weight * (bound + 2.0**-40 * float(np.abs(y).max() + np.abs(x).max()))
        return residual_sums, tolerance

    def _tables_with(self, leaf: int) -> Iterator[tuple[PlacedTable, int, int]]:
        """Yield all measured tables with the area or group that contains a leaf.

        The last number is that of the areas of which estimates are sums: the leaves of a group.
        """
        shape, area = self.published.shape, leaf
        for level in reversed(range(len(shape.levels))):
            yield from ((placed, area, 1) for placed in shape.at(level))
            area = int(shape.tree.parents[level - 1][area]) if level else 0
        for level, key in enumerate(shape.groupings, len(shape.levels)):
            groups = key.ancestors.numbers
            group = int(groups[leaf])
            leaves = int((groups == group).sum())
            yield from ((placed, group, leaves) for placed in shape.at(level))


def _next_is_sibling(shape: Shape, leaf: int) -> bool:
    """Return whether a leaf and the next one lie in the same area."""
    parents = shape.tree.parents[-1] if shape.tree.parents else np.zeros(2, np.int64)
    return bool(parents[leaf] == parents[leaf + 1])


def _remaining_effects(residual_sums: Floats, tables: Collection[Table]) -> Floats:
    """Return the remainder of cells after projecting out functions of the keys of some tables."""
    rest = residual_sums
    for space in {space for table in tables for space in subtables(table)}:
        part = residual_sums
        for i in range(residual_sums.ndim):
            mean = part.mean(axis=i, keepdims=True)
            part = part - mean if i in space else mean + np.zeros_like(part)
        rest = rest - part
    return rest


def _evenly_spaced_indexes(sizes: tuple[int, ...]) -> list[Integers]:
    """Return indexes of values of each attribute: all values if there are not too many cells."""
    values_per_attribute = max(sizes, default=0)
    while math.prod(min(n, values_per_attribute) for n in sizes) > MOST_CELLS:
        values_per_attribute = max(1, values_per_attribute * 3 // 4)
    return [
        np.unique(np.linspace(0, n - 1, min(n, values_per_attribute)).astype(np.int64))
        for n in sizes
    ]


def _at_finest_cells(cells: Floats, table: tuple[int, ...], indexes: Sequence[Integers]) -> Floats:
    """Return the cell of a table that contains each finest cell with the values `indexes`."""
    selected = cells[np.ix_(*(indexes[i] for i in table))] if table else cells
    shaped: Floats = selected.reshape([len(v) if i in table else 1 for i, v in enumerate(indexes)])
    return np.broadcast_to(shaped, [len(values) for values in indexes])
