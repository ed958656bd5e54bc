"""Layer 2: non-negative integer tables from the top down, in which all totals add up.

The parent's table is already an integer table. The tables of its children are computed along a
chain of nested tables (`refinement`). Each step is one kind of small problem, which always has a
solution:

- the first table of a chain, each cell separately: nearest whole numbers that sum to the parent's
  cell (`allotment`, exact optimum);
- a table refined into two parts: the first part between 0 and the whole, summing to the parent's
  (`allotment` with caps around the mean of both parts' estimates, exact optimum);
- into more parts: children in rows, parts in columns, both margins known (`transport`).

Cells that are 0 at the parent are 0 below it: structural zeros are set once, at the roots. Margins
of the finest table of children sum to their parent's in every cell, so all tables do.

Problems are solved in batches of similar size; each result depends only on its own problem.

**Totals from composition.** Totals of badly measured areas can be estimated from the composition of
their parent. A child's cells z_j estimate its total t in two ways: their sum, and each z_j over the
share p_j that the cell has in the parent. If children have the composition of their parent, z_j is
p_j t and noise; least squares then gives
    t = sum_j p_j z_j / sum_j p_j^2,
whose error is far less than that of the sum, for most cells of the parent are empty or nearly so.
If children have another composition the estimate is biased: large, untypical areas get worse. So it
is an option of the declaration, and only for integer tables: estimates don't change.

The arithmetic uses whole numbers: shares are multiples of 2**-20, each product one correctly
rounded float.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cells
from dprelease.consistency.allotment import nearest_integers
from dprelease.consistency.fixed_point import Whole, sibling_sums, whole
from dprelease.consistency.structure import Structure
from dprelease.consistency.transport import fit_to_margins

SHARE_BITS = 20


def composed_totals(estimates: Whole, parents: Whole, families: Whole) -> Whole:
    """Return the totals of children estimated from their parents' composition: (children,).

    Parameters
    ----------
    estimates
        (children, cells) layer 1 of the finest table, in units of values.
    parents
        (parents, cells) the parents' whole tables.
    families
        (parents + 1,) where each parent's children start.
    """
    count = parents.shape[1]
    total = np.maximum(parents.sum(axis=1), 1).astype(np.float64)
    scaled = np.ldexp(parents.astype(np.float64), SHARE_BITS)
    shares = whole(scaled / total[:, None])
    squares = np.maximum((shares * shares).sum(axis=1), 1).astype(np.float64)
    weights = np.ldexp(shares.astype(np.float64), SHARE_BITS) / squares[:, None]
    most = float(1 << 60) / max(1, count)  # sums of `count` numbers stay below 2**60
    own = np.repeat(weights, np.diff(families), axis=0)
    terms = np.clip(own * estimates.astype(np.float64), -most, most)
    totals: Whole = whole(terms).sum(axis=1)
    return totals


_BATCH = 1 << 18  # entries of one batch
_CLASSES = 1.6  # largest ratio of sizes within one batch


class Level:
    """Estimates of the children of some areas, and the parents' integer tables; finest attributes.

    Parameters
    ----------
    structure
        What is declared.
    finest
        The finest table.
    estimates
        (children, n_i ...) layer 1 of the finest table, in units of values.
    parents
        (parents, n_i ...) the parents' whole tables.
    families
        (parents + 1,) where each parent's children start.
    """

    def __init__(
        self,
        structure: Structure,
        finest: Table,
        estimates: Whole,
        parents: Whole,
        families: Whole,
    ) -> None:
        self.sizes, self.bits, self.finest = structure.sizes, structure.bits, finest
        self.estimates, self.parents, self.families = estimates, parents, families
        self.fan = np.diff(families)

    def margin(self, x: Whole, table: Table, coarser: Table = ()) -> Whole:
        """Return a table's cells as (areas, cells of `coarser`, parts of each)."""
        axes = tuple(1 + i for i, a in enumerate(self.finest) if a not in table)
        summed = x.sum(axis=axes) if axes else x
        order = [*coarser, *(a for a in table if a not in coarser)]
        moved = summed.transpose(0, *(1 + table.index(a) for a in order))
        return np.ascontiguousarray(moved).reshape(
            len(x), cells(self.sizes, coarser), cells(self.sizes, set(table) - set(coarser))
        )

    def restore(self, x: Whole, table: Table, coarser: Table) -> Whole:
        """Invert `margin`: return cells with axes in the table's order, (areas, cells)."""
        order = [*coarser, *(a for a in table if a not in coarser)]
        wide = x.reshape(len(x), *(self.sizes[a] for a in order))
        moved = wide.transpose(0, *(1 + order.index(a) for a in table))
        return moved.reshape(len(x), cells(self.sizes, table))


def children(
    level: Level, chain: list[Table], exact: set[Table], *, composed: bool = False
) -> Whole:
    """Return the finest integer tables of all children: (children, n_i ...).

    Parameters
    ----------
    level
        The children with their estimates and parents.
    chain
        Nested tables, the finest last.
    exact
        The tables of the chain that are known exactly.
    composed
        Whether the totals, the first table of the chain, are estimated from the parents'
        composition.

    Raises
    ------
    ValueError
        If exact numbers contradict their parents'.
    """
    made: Whole | None = None
    before: Table = ()
    for table in chain:
        if table in exact:
            made = _exact(level, table)
        elif made is None:
            made = _each_cell(level, table, composed=composed)
        else:
            made = level.restore(_refine_cells(level, table, before, made), table, before)
        before = table
    if made is None:
        raise ValueError("a chain has at least the finest table")
    return made.reshape(len(made), *(level.sizes[a] for a in level.finest))


def _exact(level: Level, table: Table) -> Whole:
    units = level.margin(level.estimates, table)[:, 0]
    made: Whole = units >> level.bits
    contradicts = sibling_sums(made, level.families) != level.margin(level.parents, table)[:, 0]
    if (made << level.bits != units).any() or (made < 0).any() or contradicts[level.fan > 0].any():
        raise ValueError("exact tables contradict their parents' or the structural zeros")
    return made


def _classes(*sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield sets of problems of similar sizes."""
    key = np.zeros(len(sizes[0]), np.int64)
    for size in sizes:
        key = key * 1000 + np.ceil(np.log(np.maximum(size, 1)) / np.log(_CLASSES)).astype(np.int64)
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    yield from (part for part in np.split(order, cuts) if len(part))


def _batches(problems: NDArray[np.int64], entries: int) -> Iterator[NDArray[np.int64]]:
    per = max(1, _BATCH // max(1, entries))
    for start in range(0, len(problems), per):
        yield problems[start : start + per]


def _members(level: Level, parent: Whole) -> tuple[Whole, NDArray[np.bool_]]:
    """Return the children of some parents, padded, and a mask of existing ones."""
    width = int(level.fan[parent].max())
    there = np.arange(width) < level.fan[parent][:, None]
    rows = level.families[parent][:, None] + np.where(there, np.arange(width), 0)
    return rows, there


def _each_cell(level: Level, table: Table, *, composed: bool) -> Whole:
    """Return the cells of a table, each solved separately, summing to the parent's cell."""
    z = level.margin(level.estimates, table)[:, 0]
    if composed:
        each = cells(level.sizes, level.finest)
        flat = level.estimates.reshape(len(level.estimates), each)
        parents = level.parents.reshape(len(level.parents), each)
        z = composed_totals(flat, parents, level.families)[:, None]
    totals = level.margin(level.parents, table)[:, 0]
    made = np.zeros(z.shape, np.int64)
    parent, cell = np.nonzero(totals * (level.fan > 0)[:, None])
    for some in _classes(level.fan[parent]):
        for batch in _batches(some, int(level.fan[parent[some]].max())):
            rows, there = _members(level, parent[batch])
            at = (rows, cell[batch][:, None])
            x = nearest_integers(z[at], there, totals[parent[batch], cell[batch]], level.bits)
            made[rows[there], np.broadcast_to(at[1], rows.shape)[there]] = x[there]
    return made


def _refine_cells(level: Level, table: Table, before: Table, made: Whole) -> Whole:
    """Return a table's cells within a coarser table's: (children, coarser cells, parts)."""
    z = level.margin(level.estimates, table, before)
    aims = level.margin(level.parents, table, before)
    if z.shape[2] == 2:
        return _split_in_two(level, z, aims[:, :, 0], made)
    refined = np.zeros(z.shape, np.int64)
    parent, cell = np.nonzero(aims.any(axis=2) & (level.fan > 0)[:, None])
    open_ = aims[parent, cell] > 0
    filled = sibling_sums((made > 0).astype(np.int64), level.families)[parent, cell]
    for some in _classes(filled, open_.sum(axis=1)):
        parts = int(open_[some].sum(axis=1).max())
        width = int(filled[some].max())
        for batch in _batches(some, width * parts):
            rows, there = _members(level, parent[batch])
            there &= made[rows, cell[batch][:, None]] > 0  # cells with 0 need no refinement
            first = np.argsort(~there, axis=1, kind="stable")[:, :width]
            rows = np.take_along_axis(rows, first, axis=1)
            there = np.take_along_axis(there, first, axis=1)
            columns = np.argsort(~open_[batch], axis=1, kind="stable")[:, :parts]
            at = (rows[:, :, None], cell[batch][:, None, None], columns[:, None, :])
            margin = np.where(there, made[rows, cell[batch][:, None]], 0)
            below = np.take_along_axis(aims[parent[batch], cell[batch]], columns, axis=1)
            x = fit_to_margins(z[at], there, margin, below, level.bits)
            shape = (*there.shape, parts)
            real = np.broadcast_to(there[:, :, None], shape)
            refined[tuple(np.broadcast_to(i, shape)[real] for i in at)] = x[real]
    return refined


def _split_in_two(level: Level, z: Whole, first: Whole, made: Whole) -> Whole:
    """Return two parts of each number, as near to both estimates as possible.

    (x - z_0)^2 + (t - x - z_1)^2 is twice (x - (z_0 - z_1 + t) / 2)^2 and a constant: units are
    halved.
    """
    middle = z[:, :, 0] - z[:, :, 1] + (made << level.bits)  # in units of 2**-(bits + 1)
    halves = np.zeros(z.shape, np.int64)
    parent, cell = np.nonzero(first * (level.fan > 0)[:, None])
    for some in _classes(level.fan[parent]):
        for batch in _batches(some, 2 * int(level.fan[parent[some]].max())):
            rows, there = _members(level, parent[batch])
            at = (rows, np.broadcast_to(cell[batch][:, None], rows.shape))
            caps = np.where(there, made[at], 0)
            sums = first[parent[batch], cell[batch]]
            x = nearest_integers(middle[at], there, sums, level.bits + 1, caps)
            halves[at[0][there], at[1][there], 0] = x[there]
    halves[:, :, 1] = made - halves[:, :, 0]
    return halves


def roots(level: Level, chain: list[Table], exact: set[Table], zeros: NDArray[np.bool_]) -> Whole:
    """Return the finest integer tables of the roots; ignores `level.parents`.

    Parameters
    ----------
    zeros
        (n_i ...) which cells of the finest table are 0 everywhere.

    Raises
    ------
    ValueError
        If exact numbers contradict the structural zeros.
    """
    possible = np.broadcast_to(~zeros, level.estimates.shape).astype(np.int64)
    made: Whole | None = None
    before: Table = ()
    for table in chain:
        z = level.margin(level.estimates, table, before)
        valid = level.margin(possible, table, before) > 0
        if table in exact:
            x = z >> level.bits
            if (x << level.bits != z).any() or (x < 0).any() or x[~valid].any():
                raise ValueError("exact tables contradict the structural zeros")
        elif made is None:
            x = np.where(valid, np.maximum((z + (1 << level.bits >> 1)) >> level.bits, 0), 0)
        else:
            totals = made.reshape(-1)
            shape = (len(totals), z.shape[2])
            if totals[~valid.reshape(shape).any(axis=1)].any():
                raise ValueError("exact tables contradict the structural zeros")
            x = nearest_integers(z.reshape(shape), valid.reshape(shape), totals, level.bits)
        made = level.restore(x.reshape(len(z), -1), table, before)
        before = table
    if made is None:
        raise ValueError("a chain has at least the finest table")
    return made.reshape(len(made), *(level.sizes[a] for a in level.finest))
