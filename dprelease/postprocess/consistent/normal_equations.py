"""Second check: published estimates solve the normal equations of least squares.

With measurements y of tables S at areas v, of weight w = 1 / variance each, and estimates x of the
same cells, least squares over the leaves' cells says that for every one of these
    sum over areas v above the leaf and tables S of w (y - mean - x) = 0,
each at the cell of S that it lies in. The sum over published x may be off by what fixed point moves
them, `standard_errors.rounding_error`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dprelease.consistency.standard_errors import rounding_error
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import Floats, Integers
from dprelease.postprocess.consistent.published import PublishedColumn
from dprelease.postprocess.consistent.reading import Measured

SAMPLED = 16
"""Leaves whose equations are looked at."""

MOST_CELLS = 1 << 20
"""Finest cells of a leaf that are looked at: small tables may have very many together."""


def wrong_equations(
    variances: Variances, measured: Measured, published: PublishedColumn
) -> Iterator[str]:
    """Yield leaves at which the equations don't hold; estimates of all levels are published."""
    shape = published.shape
    leaves = shape.tree.counts[-1]
    some = _some_values(shape.sizes)
    bounds = {one.attributes: rounding_error(variances, one.attributes) for one in shape.placed}
    for leaf in np.unique(np.linspace(0, leaves - 1, min(SAMPLED, leaves)).astype(int)).tolist():
        left = np.zeros([len(values) for values in some])
        most = 0.0
        area = leaf
        for level in reversed(range(len(shape.levels))):
            laws = dict(published.column.laws[level])
            for placed in shape.at(level):
                table = placed.attributes
                y = measured.read(level, table, area, area + 1)[0].astype(np.float64)
                x = np.ldexp(
                    published.estimates(placed, area, area + 1)[0].astype(float), -published.bits
                )
                weight = 1.0 / float(laws[table].variance)
                left += weight * _spread(y - float(laws[table].mean) - x, table, some)
                bound = (bounds[table][level] + 1) / 2.0**published.bits
                most += weight * (bound + 2.0**-40 * float(np.abs(y).max() + np.abs(x).max()))
            area = int(shape.tree.parents[level - 1][area]) if level else 0
        if float(np.abs(left).max()) > most:
            name = published.column.name
            yield f"the estimates of '{name}' above leaf {leaf} are not least squares"


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
