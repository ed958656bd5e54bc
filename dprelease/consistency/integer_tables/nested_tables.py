"""Compute integer tables (layer 2): from the top down, non-negative, with totals that add up.

The parent's table is already an integer table. The tables of its children are computed along a
chain of nested tables (`decisions`). Each step of the chain is a set of small problems, which
always have a solution:

- The first table of a chain is computed cell by cell: the nearest whole numbers that sum to the
  parent's cell (`allotment`, exact optimum).
- If each cell is refined into two parts, the first part is at least 0 and at most the cell, and
  sums to the parent's part (`allotment` with caps, around the mean of both parts' estimates, exact
  optimum).
- If each cell is refined into more parts, children are rows, parts are columns, and the margins of
  both are known (`fit_to_margins`).

Cells that are 0 at the parent are 0 at all areas below it, so structural zeros are set only once,
at the roots. The finest tables of children sum to the parent's in every cell, and so do all others.

Problems are solved in batches of similar size, and each result depends only on its own problem.

**Totals from composition.** Totals of badly measured areas can be estimated from the composition of
their parent. A child's cells z_j estimate its total t in two ways: their sum, and each z_j over the
share p_j that the cell has in the parent. If children have the composition of their parent, z_j is
p_j t and noise; least squares then gives
    t = sum_j p_j z_j / sum_j p_j^2,
whose error is far less than that of the sum, because most cells of the parent are empty or nearly
empty. If children have another composition, the estimate of their total is biased: totals of large,
untypical areas become less accurate. So this is an option of the declaration, and it changes only
integer tables, not estimates.

The arithmetic uses whole numbers: shares are multiples of 2**-20, each product one correctly
rounded float.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cell_count
from dprelease.consistency.fixed_point import Whole, round_half_even, sibling_sums
from dprelease.consistency.integer_tables.allotment import fit_to_margins, nearest_integers
from dprelease.consistency.structure import Structure

SHARE_BITS = 20


def composed_totals(estimates: Whole, parents: Whole, families: Whole) -> Whole:
    """Return the totals of children estimated from their parents' composition: (children,).

    - `estimates`: (children, cells) the estimates of the finest table, in units of values.
    - `parents`: (parents, cells) the integer tables of the parents.
    - `families`: (parents + 1,) where each parent's children start.
    """
    count = parents.shape[1]
    total = np.maximum(parents.sum(axis=1), 1).astype(np.float64)
    scaled = np.ldexp(parents.astype(np.float64), SHARE_BITS)
    shares = round_half_even(scaled / total[:, None])
    squares = np.maximum((shares * shares).sum(axis=1), 1).astype(np.float64)
    weights = np.ldexp(shares.astype(np.float64), SHARE_BITS) / squares[:, None]
    most = float(1 << 60) / max(1, count)  # sums of `count` numbers stay below 2**60
    family_weights = np.repeat(weights, np.diff(families), axis=0)
    terms = np.clip(family_weights * estimates.astype(np.float64), -most, most)
    totals: Whole = round_half_even(terms).sum(axis=1)
    return totals


_BATCH_ENTRIES = 1 << 18  # entries of one batch
_MAX_SIZE_RATIO = 1.6  # largest ratio of sizes within one batch


class Level:
    """The finest estimates of the children of some areas, and the integer tables of these areas.

    - `structure`: the declaration.
    - `finest`: the finest table.
    - `estimates`: (children, n_i ...) the estimates of the finest table, in units of values.
    - `parents`: (parents, n_i ...) the integer tables of the parents.
    - `families`: (parents + 1,) where each parent's children start.
    - `targets`: (children, n_i ...) the values that integers approximate where no table is exact,
      in units of values; by default the estimates.
    """

    def __init__(
        self,
        structure: Structure,
        finest: Table,
        estimates: Whole,
        parents: Whole,
        families: Whole,
        targets: Whole | None = None,
    ) -> None:
        self.sizes, self.bits, self.finest = structure.sizes, structure.bits, finest
        self.estimates, self.parents, self.families = estimates, parents, families
        self.targets = estimates if targets is None else targets
        self.fan = np.diff(families)

    def margin(self, x: Whole, table: Table, coarser: Table = ()) -> Whole:
        """Return a table's cells as (areas, cells of the `coarser` table, parts of each)."""
        axes = tuple(1 + i for i, a in enumerate(self.finest) if a not in table)
        summed = x.sum(axis=axes) if axes else x
        order = [*coarser, *(a for a in table if a not in coarser)]
        moved = summed.transpose(0, *(1 + table.index(a) for a in order))
        return np.ascontiguousarray(moved).reshape(
            len(x),
            cell_count(self.sizes, coarser),
            cell_count(self.sizes, set(table) - set(coarser)),
        )

    def restore(self, x: Whole, table: Table, coarser: Table) -> Whole:
        """Invert `margin`: return cells with axes in the table's order, (areas, cells)."""
        order = [*coarser, *(a for a in table if a not in coarser)]
        wide = x.reshape(len(x), *(self.sizes[a] for a in order))
        moved = wide.transpose(0, *(1 + order.index(a) for a in table))
        return moved.reshape(len(x), cell_count(self.sizes, table))


def children(
    level: Level, chain: list[Table], exact: set[Table], *, composed: bool = False
) -> Whole:
    """Return the finest integer tables of all children: (children, n_i ...).

    - `level`: the children with their estimates and parents.
    - `chain`: nested tables, the finest last.
    - `exact`: the tables of the chain that are known exactly.
    - `composed`: whether the totals, the first table of the chain, are estimated from the parents'
      composition.

    Raises ValueError if exact numbers of children contradict those of their parents.
    """
    integers: Whole | None = None
    coarser_table: Table = ()
    for table in chain:
        if table in exact:
            integers = _exact_cells(level, table)
        elif integers is None:
            integers = _solve_each_cell(level, table, composed=composed)
        else:
            integers = level.restore(
                _refine_cells(level, table, coarser_table, integers), table, coarser_table
            )
        coarser_table = table
    if integers is None:
        raise ValueError("a chain has at least the finest table")
    return integers.reshape(len(integers), *(level.sizes[a] for a in level.finest))


def _exact_cells(level: Level, table: Table) -> Whole:
    units = level.margin(level.estimates, table)[:, 0]
    integers: Whole = units >> level.bits
    contradicts = sibling_sums(integers, level.families) != level.margin(level.parents, table)[:, 0]
    if (
        (integers << level.bits != units).any()
        or (integers < 0).any()
        or contradicts[level.fan > 0].any()
    ):
        raise ValueError("exact tables contradict their parents' or the structural zeros")
    return integers


def similar_problems(*sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield sets of problems of similar size."""
    key = np.zeros(len(sizes[0]), np.int64)
    for size in sizes:
        key = key * 1000 + np.ceil(np.log(np.maximum(size, 1)) / np.log(_MAX_SIZE_RATIO)).astype(
            np.int64
        )
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    yield from (part for part in np.split(order, cuts) if len(part))


def batches(
    problems: NDArray[np.int64], entries: int, together: int = _BATCH_ENTRIES
) -> Iterator[NDArray[np.int64]]:
    """Yield problems of some entries each in sets of up to `together` entries."""
    per = max(1, together // max(1, entries))
    for start in range(0, len(problems), per):
        yield problems[start : start + per]


def padded_children(level: Level, parent: Whole) -> tuple[Whole, NDArray[np.bool_]]:
    """Return the padded indices of the children of some parents, and a mask of those that exist."""
    width = int(level.fan[parent].max())
    exists = np.arange(width) < level.fan[parent][:, None]
    rows = level.families[parent][:, None] + np.where(exists, np.arange(width), 0)
    return rows, exists


def _solve_each_cell(level: Level, table: Table, *, composed: bool) -> Whole:
    """Return the cells of a table; each is solved separately, and sums to the parent's cell."""
    z = level.margin(level.targets, table)[:, 0]
    if composed:
        each = cell_count(level.sizes, level.finest)
        flat = level.estimates.reshape(len(level.estimates), each)
        parents = level.parents.reshape(len(level.parents), each)
        z = composed_totals(flat, parents, level.families)[:, None]
    totals = level.margin(level.parents, table)[:, 0]
    integers = np.zeros(z.shape, np.int64)
    # Cells that are 0 at the parent are 0 at all children, which is the start value.
    parent, cell = np.nonzero(totals * (level.fan > 0)[:, None])
    for problems in similar_problems(level.fan[parent]):
        for batch in batches(problems, int(level.fan[parent[problems]].max())):
            rows, exists = padded_children(level, parent[batch])
            index = (rows, cell[batch][:, None])
            x = nearest_integers(z[index], exists, totals[parent[batch], cell[batch]], level.bits)
            integers[rows[exists], np.broadcast_to(index[1], rows.shape)[exists]] = x[exists]
    return integers


def _refine_cells(level: Level, table: Table, coarser_table: Table, integers: Whole) -> Whole:
    """Return a table's cells within a coarser table's: (children, coarser cells, parts)."""
    z = level.margin(level.targets, table, coarser_table)
    aims = level.margin(level.parents, table, coarser_table)
    if z.shape[2] == 2:
        return _split_in_two(level, z, aims[:, :, 0], integers)
    refined = np.zeros(z.shape, np.int64)
    parent, cell = np.nonzero(aims.any(axis=2) & (level.fan > 0)[:, None])
    is_open = aims[parent, cell] > 0
    filled = sibling_sums((integers > 0).astype(np.int64), level.families)[parent, cell]
    for problems in similar_problems(filled, is_open.sum(axis=1)):
        parts = int(is_open[problems].sum(axis=1).max())
        width = int(filled[problems].max())
        for batch in batches(problems, width * parts):
            rows, exists = padded_children(level, parent[batch])
            exists &= integers[rows, cell[batch][:, None]] > 0  # cells with 0 need no refinement
            first = np.argsort(~exists, axis=1, kind="stable")[:, :width]
            rows = np.take_along_axis(rows, first, axis=1)
            exists = np.take_along_axis(exists, first, axis=1)
            columns = np.argsort(~is_open[batch], axis=1, kind="stable")[:, :parts]
            index = (rows[:, :, None], cell[batch][:, None, None], columns[:, None, :])
            margin = np.where(exists, integers[rows, cell[batch][:, None]], 0)
            below = np.take_along_axis(aims[parent[batch], cell[batch]], columns, axis=1)
            x = fit_to_margins(z[index], exists, margin, below, level.bits)
            shape = (*exists.shape, parts)
            real = np.broadcast_to(exists[:, :, None], shape)
            refined[tuple(np.broadcast_to(i, shape)[real] for i in index)] = x[real]
    return refined


def _split_in_two(level: Level, z: Whole, first: Whole, integers: Whole) -> Whole:
    """Return two parts of each number, as near to the estimates of both as possible.

    (x - z_0)^2 + (t - x - z_1)^2 is twice (x - (z_0 - z_1 + t) / 2)^2 plus a constant. The factor
    1 / 2 is computed by halving the unit.
    """
    middle = z[:, :, 0] - z[:, :, 1] + (integers << level.bits)  # in units of 2**-(bits + 1)
    halves = np.zeros(z.shape, np.int64)
    parent, cell = np.nonzero(first * (level.fan > 0)[:, None])
    for problems in similar_problems(level.fan[parent]):
        for batch in batches(problems, 2 * int(level.fan[parent[problems]].max())):
            rows, exists = padded_children(level, parent[batch])
            index = (rows, np.broadcast_to(cell[batch][:, None], rows.shape))
            caps = np.where(exists, integers[index], 0)
            sums = first[parent[batch], cell[batch]]
            x = nearest_integers(middle[index], exists, sums, level.bits + 1, caps)
            halves[index[0][exists], index[1][exists], 0] = x[exists]
    halves[:, :, 1] = integers - halves[:, :, 0]
    return halves


def roots(level: Level, chain: list[Table], exact: set[Table], zeros: NDArray[np.bool_]) -> Whole:
    """Return the finest integer tables of the roots. `level.parents` is not used.

    - `zeros`: (n_i ...) which cells of the finest table are 0 at every area.

    Raises ValueError if exact numbers contradict the structural zeros.
    """
    possible = np.broadcast_to(~zeros, level.estimates.shape).astype(np.int64)
    integers: Whole | None = None
    coarser_table: Table = ()
    for table in chain:
        exactly = table in exact
        values = level.estimates if exactly else level.targets
        z = level.margin(values, table, coarser_table)
        valid = level.margin(possible, table, coarser_table) > 0
        if exactly:
            x = z >> level.bits
            # A shift rounds down, so a number that is not whole differs after shifting back.
            if (x << level.bits != z).any() or (x < 0).any() or x[~valid].any():
                raise ValueError("exact tables contradict the structural zeros")
        elif integers is None:
            x = np.where(valid, np.maximum((z + (1 << level.bits >> 1)) >> level.bits, 0), 0)
        else:
            totals = integers.reshape(-1)
            shape = (len(totals), z.shape[2])
            if totals[~valid.reshape(shape).any(axis=1)].any():
                raise ValueError("exact tables contradict the structural zeros")
            x = nearest_integers(z.reshape(shape), valid.reshape(shape), totals, level.bits)
        integers = level.restore(x.reshape(len(z), -1), table, coarser_table)
        coarser_table = table
    if integers is None:
        raise ValueError("a chain has at least the finest table")
    return integers.reshape(len(integers), *(level.sizes[a] for a in level.finest))
