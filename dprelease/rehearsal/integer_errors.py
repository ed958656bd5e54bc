"""Compute the expected errors of integer tables, by simulation on invented counts.

The errors of integer tables depend on the sizes of cells, so they don't follow from the declaration
alone. If a table declares its number of rows, counts of so many rows are invented: areas of very
different sizes, with similar compositions, and values as frequent as a rehearsal generates them.
Noise of the declared variances is added, and both layers are computed as in a release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import with_groups
from dprelease.consistency.family import Cliques, integer_pieces, table_of_cliques
from dprelease.consistency.fixed_point import FixedPointRangeError, Whole, value_bits
from dprelease.consistency.tree import Tree
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Floats
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape, zeros_of
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.consistent.values import refinements_of
from dprelease.query.aggregates.count import Count
from dprelease.query.grouping.group_keys import Key
from dprelease.rehearsal.column_values import Draws, zipf_weights
from dprelease.schema.release_parts.consistent import ConsistentSpec
from dprelease.schema.table import Table as DeclaredTable

MOST_CELLS = 1 << 20
"""Largest number of finest cells of a simulated family."""

AREA_SPREAD, COMPOSITION_SPREAD = 1.0, 0.5
"""Standard deviations of the logarithms of sizes of areas, and of shares of values in an area."""


def integer_table_errors(plan: Plan, bits: BitSource) -> dict[tuple[str, str], float]:
    """Return the mean absolute error of a cell of integer tables, by table and column.

    Only tables of counts of rows whose source declares a number of rows are simulated, and only
    families of up to `MOST_CELLS` cells. Errors are in rows.
    """
    draws = Draws(bits)
    found: dict[tuple[str, str], float] = {}
    for family in plan.families:
        if not isinstance(family.step, Consistent) or not family.step.spec.non_negative:
            continue
        shape, table = Shape.of(family.tables), family.tables[0].query.declared.table
        rows = table.rehearsal.rows or table.size
        if rows is None or shape.tree.counts[-1] * math.prod(shape.sizes) > MOST_CELLS:
            continue
        truth = _invented_counts(shape, table, family.step.spec, rows, draws)
        for column in consistent_columns(shape):
            if column.is_shown and column.measurement.aggregate == Count():
                errors = _errors(column, family.step.spec, truth, draws)
                found |= {(name, column.name): error for name, error in errors}
    return found


def _invented_counts(
    shape: Shape, table: DeclaredTable, spec: ConsistentSpec, rows: int, draws: Draws
) -> list[Whole]:
    """Return (areas, n_i ...) invented counts of each level."""
    tree, weights = shape.tree, np.ones(1)
    for parents in tree.parents:
        own = np.exp(AREA_SPREAD * _normal(draws, len(parents)))
        siblings = np.bincount(parents, own, minlength=int(parents.max(initial=0)) + 1)
        weights = weights[parents] * own / siblings[parents]
    cells: Floats = rows * weights
    for key in shape.attributes:
        declared = table.rehearsal.frequencies.get(key.column)
        common = zipf_weights(key.size, float(table.rehearsal.zipf))
        if declared is not None and len(declared) == key.size:
            common = np.array([float(one) for one in declared.values()])
        shares = common * np.exp(
            COMPOSITION_SPREAD * _normal(draws, len(weights) * key.size)
        ).reshape(len(weights), -1)
        shares /= shares.sum(axis=1, keepdims=True)
        cells = cells[..., np.newaxis] * shares.reshape(
            len(weights), *(1,) * (cells.ndim - 1), key.size
        )
    cells[:, zeros_of(shape, spec.zeros)] = 0
    spread = np.sqrt(cells) * _normal(draws, cells.size).reshape(cells.shape)
    drawn = np.maximum(cells + np.where(cells > 10, spread, 0), 0)  # rare rows come one at a time
    counts = np.floor(drawn + draws.uniform(cells.size).reshape(cells.shape)).astype(np.int64)
    counts[:, zeros_of(shape, spec.zeros)] = 0
    return _with_sums(tree, counts)


def _with_sums(tree: Tree, leaves: Whole) -> list[Whole]:
    levels = [leaves]
    for parents, count in zip(reversed(tree.parents), reversed(tree.counts[:-1]), strict=True):
        above = np.zeros((count, *leaves.shape[1:]), np.int64)
        np.add.at(above, parents, levels[0])
        levels.insert(0, above)
    return levels


def _normal(draws: Draws, n: int) -> Floats:
    """Return (n,) standard normal numbers, by the method of Box and Muller (1958)."""
    radius = np.sqrt(-2 * np.log1p(-draws.uniform(n)))
    normal: Floats = radius * np.cos(2 * math.pi * draws.uniform(n))
    return normal


def _errors(
    column: FamilyColumn, spec: ConsistentSpec, truth: list[Whole], draws: Draws
) -> Iterator[tuple[str, float]]:
    """Yield the name of each integer table and the mean absolute error of its cells."""
    shape = column.shape
    areas = [*truth, *(_sums_of_groups(key, truth[-1]) for key in shape.groupings)]
    measured = {}
    for placed in (one for level in range(len(areas)) for one in shape.at(level)):
        true, moments = _margin(areas[placed.level], placed.attributes), column.moments_of(placed)
        noise = math.sqrt(moments.variance) * _normal(draws, true.size).reshape(true.shape)
        rounded = np.rint(float(moments.mean) + noise).astype(np.int64)
        measured[placed.level, placed.attributes] = true + rounded

    def read(level: int, table: Table, start: int, stop: int) -> Whole:
        return measured[level, table][start:stop]

    largest = max(int(np.abs(values).sum()) for values in measured.values())
    room = 3 ** len(shape.sizes) * (2 * len(shape.levels) + 2)  # as for published measurements
    enough = 1 << (room * largest).bit_length()
    if value_bits(shape.sizes, enough) < 0:
        return  # a release would cut its measurements
    try:
        variances = with_groups(column.variances.with_largest(enough), read)
    except FixedPointRangeError:
        return  # a release would use a coarser lattice
    integers: list[list[Cliques]] = [[] for _ in shape.levels]
    for piece in integer_pieces(variances, read, refinements_of(column, spec)):
        for at in range(0 if piece.estimates.top else 1, len(piece.whole)):
            integers[piece.estimates.level + at].append(piece.whole[at])
    for placed in (*shape.placed, *(table for tables in shape.grouped for table, _ in tables)):
        level = min(placed.level, len(integers) - 1)
        cells = np.concatenate(
            [table_of_cliques(one, placed.attributes) for one in integers[level]]
        )
        if placed.level > level:
            cells = _sums_of_groups(shape.groupings[placed.level - len(integers)], cells)
        apart = cells - _margin(areas[placed.level], placed.attributes)
        yield placed.name, float(np.abs(apart).mean())


def _sums_of_groups(key: Key, leaves: Whole) -> Whole:
    sums = np.zeros((key.size, *leaves.shape[1:]), np.int64)
    np.add.at(sums, key.ancestors.numbers, leaves)
    return sums


def _margin(cells: Whole, table: Table) -> Whole:
    summed = tuple(axis for axis in range(1, cells.ndim) if axis - 1 not in table)
    return cells.sum(axis=summed) if summed else cells
