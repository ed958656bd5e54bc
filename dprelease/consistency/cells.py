"""Compute cells of tables from contrasts, exactly additive along tree and tables.

`algebra.table_from_contrasts` returns N x_S in units of values, N the cells of S, as whole numbers
that add up along the tree and along tables. Dividing each by N would break additivity; therefore
running sums are divided. Let K(v,
j) be the sum of N x_S over the nodes before and including v (children in order, after all nodes
that come before their parent) and over the cells up to j, on every axis. The published cell is the
difference, along every axis and the nodes, of floor(K / N). Differences of running sums telescope:
a table's cells sum to the cells of its margins, which are floor(K / N) with another attribute at
its end (where N x_S sums to n_i N x_(S - i), so that the quotient is the same number), and
children's cells sum to their parent's, whichever tables of the children and the parent are
published.

Each of 2**(c + 1) floors (c attributes) is wrong by less than 1, half of them upwards: a published
cell is within 2**c units of the quotient. If N divides the sums, as for exact whole numbers, the
cell is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dprelease.consistency.algebra import (
    Contrasts,
    Table,
    cell_count,
    spaces_of,
    table_from_contrasts,
)
from dprelease.consistency.fixed_point import FixedPointRangeError, Whole, running_sums
from dprelease.consistency.structure import Structure

PRODUCT_BITS = 62  # largest number of bits of the product of N and a cell
_SHORT_AXIS = 4  # axes up to this length are summed by adding slices
_IGNORED_BITS = 14  # low bits that the check of large numbers ignores
_BATCH_SIZE = 1 << 16  # cells per batch of families: their arrays stay in the cache of a processor


@dataclass(frozen=True)
class CellsOfAreas:
    """Cells of a table at some areas.

    - `values`: (nodes, n_i for i in the table) the cells, in units of values.
    - `before`: the exact running sums before each node's first child, from which the cells of its
      children are computed.
    """

    values: Whole
    before: Whole


def additive_cells(
    structure: Structure, table: Table, final: Contrasts, families: Whole, before: Whole
) -> CellsOfAreas:
    """Return the published cells of a table at the children of some areas, additive in each family.

    - `table`: the table; residual spaces that `final` does not have are 0.
    - `final`: the final contrasts of the children.
    - `families`: (parents + 1,) where each parent's children start.
    - `before`: the field `CellsOfAreas.before` of each parent; zeros for the roots.

    Raises FixedPointRangeError if cells are too large for the declared largest number.
    """
    cells_per_area = cell_count(structure.sizes, table)
    spaces = spaces_of(structure.sizes, table)
    shape = (int(families[-1]), *(structure.sizes[i] for i in table))
    if shape[0] * cells_per_area <= _BATCH_SIZE:
        return _additive_cells_of_batch(structure, table, final, families, before)
    carried = CellsOfAreas(np.empty(shape, np.int64), np.empty(shape, np.int64))
    for first, last in pairwise(_batch_edges(families, max(1, _BATCH_SIZE // cells_per_area))):
        start, stop = int(families[first]), int(families[last])
        some = {space: final[space][start:stop] for space in spaces if space in final}
        batch_families = families[first : last + 1] - start
        batch = _additive_cells_of_batch(structure, table, some, batch_families, before[first:last])
        carried.values[start:stop], carried.before[start:stop] = batch.values, batch.before
    return carried


def _batch_edges(families: Whole, most: int) -> list[int]:
    """Return cuts between batches of parents with at most `most` children, or with one parent."""
    cuts = [0]
    while (first := cuts[-1]) < len(families) - 1:
        last = int(np.searchsorted(families, families[first] + most, side="right")) - 1
        # At least one parent, even if its children alone are more than `most`.
        cuts.append(max(last, first + 1))
    return cuts


def _additive_cells_of_batch(
    structure: Structure, table: Table, final: Contrasts, families: Whole, before: Whole
) -> CellsOfAreas:
    """Return the result of `additive_cells` for one batch."""
    cells_per_area = cell_count(structure.sizes, table)
    scaled = _table_without_overflow(structure, table, final)
    # Only remainders are summed below, so that running sums over millions of areas stay small.
    # Whole quotients are additive by themselves.
    quotient = scaled // cells_per_area
    rest = scaled - quotient * cells_per_area
    running = running_sums(rest, families)
    running -= rest
    running += np.repeat(before, np.diff(families), axis=0)
    low = _running_quotients(running.copy(), cells_per_area)
    high = np.empty_like(low)  # running sums after each node
    high[:-1] = low[1:]
    last = families[1:][np.diff(families) > 0] - 1
    high[last] = _running_quotients(running[last] + rest[last], cells_per_area)
    high -= low
    for axis in range(1, high.ndim):
        later, earlier = _later_and_earlier(axis, high.ndim)
        # A copy, because the slices overlap: without it later differences would use changed
        # numbers.
        high[later] -= high[earlier].copy()
    quotient += high
    return CellsOfAreas(quotient, running)


def _running_quotients(x: Whole, cells_per_area: int) -> Whole:
    """Return running sums over all axes but the first, divided by `number`; overwrites `x`."""
    for axis in range(1, x.ndim):
        if x.shape[axis] > _SHORT_AXIS:
            np.cumsum(x, axis=axis, out=x)
        else:
            # On short axes a sum of slices is faster than NumPy's loop over each short row.
            for j in range(1, x.shape[axis]):
                along = x.swapaxes(0, axis)  # a view
                along[j] += along[j - 1]
    return np.floor_divide(x, cells_per_area, out=x)


def _later_and_earlier(axis: int, axes: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the indices of all but the first, and of all but the last, along an axis."""
    every = [slice(None)] * axes
    later, earlier = every.copy(), every.copy()
    later[axis], earlier[axis] = slice(1, None), slice(None, -1)
    return tuple(later), tuple(earlier)


def _table_without_overflow(structure: Structure, table: Table, final: Contrasts) -> Whole:
    """Return the result of `table_from_contrasts` after a proof that it fits 64 bits."""
    bound = sum(
        cell_count(structure.sizes, space) * max(int(part.max()), -int(part.min())) << len(space)
        for space in spaces_of(structure.sizes, table)
        if space in final and (part := final[space]).size
    )
    if bound >= 1 << PRODUCT_BITS:  # |N x| <= sum of 2**|T| N_T |D_T|: seldom so large
        high = table_from_contrasts(
            structure.sizes,
            table,
            {
                space: part >> _IGNORED_BITS
                for space, part in final.items()
                if set(space) <= set(table)
            },
        )
        if high.max() >= 1 << (PRODUCT_BITS - _IGNORED_BITS) or high.min() <= -(
            1 << (PRODUCT_BITS - _IGNORED_BITS)
        ):
            raise FixedPointRangeError
    return table_from_contrasts(structure.sizes, table, final)
