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
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.invariants import exact_places
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.postprocess.consistent.reading import MeasuredColumn

SAMPLED = 16
"""Number of leaves whose equations are checked."""

MOST_CELLS = 1 << 20
"""Number of checked finest cells of a leaf, because small tables may have very many together."""


def wrong_equations(
    variances: Variances, measured: MeasuredColumn, published: PublishedColumn
) -> Iterator[str]:
    """Yield leaves at which the equations don't hold; estimates of all levels are published."""
    shape = published.shape
    leaves = shape.tree.counts[-1]
    sums = _Sums(variances, measured, published)
    exact = exact_places(published.column)
    everywhere = {one.attributes for one in exact}
    below = {one.attributes for one in exact if one.level == len(shape.levels) - 1}
    scale = 2.0 ** (len(shape.sizes) + 1) if exact else 1.0
    for leaf in np.unique(np.linspace(0, leaves - 1, min(SAMPLED, leaves)).astype(int)).tolist():
        left, most = sums.at(leaf)
        wrong = float(np.abs(_remaining_effects(left, everywhere)).max()) > scale * most
        if exact and leaf + 1 < leaves and _siblings(shape, leaf):
            other, more = sums.at(leaf + 1)
            apart = float(np.abs(_remaining_effects(other - left, below)).max())
            wrong |= apart > scale * (most + more)
        if wrong:
            name = published.column.name
            yield f"the estimates of '{name}' above leaf {leaf} are not least squares"


@dataclass(frozen=True)
class _Sums:
    """The equations of leaves."""

    variances: Variances
    measured: MeasuredColumn
    published: PublishedColumn

    @cached_property
    def _bounds(self) -> dict[Table, list[int]]:
        tables = {one.attributes for one in self.published.shape.placed}
        return {table: rounding_error(self.variances, table) for table in tables}

    @cached_property
    def _some(self) -> list[Integers]:
        return _some_values(self.published.shape.sizes)

    def at(self, leaf: int) -> tuple[Floats, float]:
        """Return the weighted sums of residuals at the cells of a leaf, and their tolerance."""
        published, shape = self.published, self.published.shape
        left = np.zeros([len(values) for values in self._some])
        most, area = 0.0, leaf
        for level in reversed(range(len(shape.levels))):
            laws = dict(published.column.laws[level])
            for placed in shape.at(level):
                table = placed.attributes
                if not laws[table].variance:
                    continue
                y = self.measured.read(level, table, area, area + 1)[0].astype(np.float64)
                x = np.ldexp(
                    published.estimates(placed, area, area + 1)[0].astype(float), -published.bits
                )
                weight = 1.0 / float(laws[table].variance)
                left += weight * _spread(y - float(laws[table].mean) - x, table, self._some)
                bound = (self._bounds[table][level] + 1) / 2.0**published.bits
                most += weight * (bound + 2.0**-40 * float(np.abs(y).max() + np.abs(x).max()))
            area = int(shape.tree.parents[level - 1][area]) if level else 0
        return left, most


def _siblings(shape: Shape, leaf: int) -> bool:
    """Return whether a leaf and the next one lie in the same area."""
    parents = shape.tree.parents[-1] if shape.tree.parents else np.zeros(2, np.int64)
    return bool(parents[leaf] == parents[leaf + 1])


def _remaining_effects(left: Floats, tables: Collection[Table]) -> Floats:
    """Return the remainder of cells after projecting out functions of the keys of some tables."""
    rest = left
    for space in {space for table in tables for space in subtables(table)}:
        part = left
        for i in range(left.ndim):
            mean = part.mean(axis=i, keepdims=True)
            part = part - mean if i in space else mean + np.zeros_like(part)
        rest = rest - part
    return rest


def _some_values(sizes: tuple[int, ...]) -> list[Integers]:
    """Return values of each attribute, all of them if their combinations are not too many."""
    most = max(sizes, default=0)
    while math.prod(min(n, most) for n in sizes) > MOST_CELLS:
        most = max(1, most * 3 // 4)
    return [np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64)) for n in sizes]


def _spread(cells: Floats, table: tuple[int, ...], some: Sequence[Integers]) -> Floats:
    """Return a table's cells for the finest cells of some values of each attribute."""
    held = cells[np.ix_(*(some[i] for i in table))] if table else cells
    shaped: Floats = held.reshape([len(v) if i in table else 1 for i, v in enumerate(some)])
    return np.broadcast_to(shaped, [len(values) for values in some])
