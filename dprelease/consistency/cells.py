"""Compute cells of tables from contrasts, exactly additive along tree and tables.

`algebra.table_from_contrasts` returns N x_S in units of values, N the cells of S, as whole numbers
that add up along both. Dividing each by N would break that; so running sums are divided. Let K(v,
j) be the sum of N x_S over the nodes before and including v (children in order, after all that
comes before their parent) and over the cells up to j, on every axis. The published cell is the
difference, along every axis and the nodes, of floor(K / N). Differences of running sums telescope:
a table's cells sum to its margins', which are floor(K / N) with another attribute at its end (where
N x_S sums to n_i N x_(S - i), so that the quotient is the same number), and children's cells sum to
their parent's, whichever tables of either are published.

Each of 2**(c + 1) floors (c attributes) is wrong by less than 1, half of them upwards: a published
cell is within 2**c units of the quotient. If N divides the sums, as for exact whole numbers, the
cell is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dprelease.consistency.algebra import Contrasts, Table, cells, spaces_of, table_from_contrasts
from dprelease.consistency.fixed_point import FixedPointRangeError, Whole, running_sums
from dprelease.consistency.structure import Structure

ROOM = 62  # largest number of bits of N times a cell
_SHORT = 4  # axes up to this length are summed by adding slices
_LEFT = 14  # bits that the check of large numbers ignores
_AT_ONCE = 1 << 16  # cells per batch of families: their arrays stay in the cache of a processor


@dataclass(frozen=True)
class CellsOfAreas:
    """Cells of a table at some areas.

    Parameters
    ----------
    values
        (nodes, n_i for i in the table) in units of values.
    before
        The exact running sums before each node's first child, which its children need.
    """

    values: Whole
    before: Whole


def carried_cells(
    structure: Structure, table: Table, final: Contrasts, families: Whole, before: Whole
) -> CellsOfAreas:
    """Return the published cells of a table at the children of some areas.

    Parameters
    ----------
    structure
        What is declared.
    table
        The table, all of whose residual spaces are in `final`.
    final
        The areas' contrasts.
    families
        (parents + 1,) where each parent's children start.
    before
        For each parent, as `CellsOfAreas.before`; zeros above roots.

    Raises
    ------
    FixedPointRangeError
        If cells are too large for the declared largest number.
    """
    each = cells(structure.sizes, table)
    spaces = spaces_of(structure.sizes, table)
    shape = (int(families[-1]), *(structure.sizes[i] for i in table))
    if shape[0] * each <= _AT_ONCE:
        return _carry_at_once(structure, table, final, families, before)
    carried = CellsOfAreas(np.empty(shape, np.int64), np.empty(shape, np.int64))
    for first, last in pairwise(_cuts(families, max(1, _AT_ONCE // each))):
        start, stop = int(families[first]), int(families[last])
        some = {space: final[space][start:stop] for space in spaces}
        own = families[first : last + 1] - start
        made = _carry_at_once(structure, table, some, own, before[first:last])
        carried.values[start:stop], carried.before[start:stop] = made.values, made.before
    return carried


def _cuts(families: Whole, most: int) -> list[int]:
    """Return cuts between sets of parents with at most so many children, or with one parent."""
    cuts = [0]
    while (first := cuts[-1]) < len(families) - 1:
        last = int(np.searchsorted(families, families[first] + most, side="right")) - 1
        cuts.append(max(last, first + 1))
    return cuts


def _carry_at_once(
    structure: Structure, table: Table, final: Contrasts, families: Whole, before: Whole
) -> CellsOfAreas:
    """Return `carried_cells` for one batch."""
    number = cells(structure.sizes, table)
    scaled = _table_without_overflow(structure, table, final)
    quotient = scaled // number
    rest = scaled - quotient * number
    running = running_sums(rest, families)
    running -= rest
    running += np.repeat(before, np.diff(families), axis=0)
    low = _running_quotients(running.copy(), number)
    high = np.empty_like(low)  # running sums after each node
    high[:-1] = low[1:]
    last = families[1:][np.diff(families) > 0] - 1
    high[last] = _running_quotients(running[last] + rest[last], number)
    high -= low
    for axis in range(1, high.ndim):
        later, sooner = _neighbours(axis, high.ndim)
        high[later] -= high[sooner].copy()
    quotient += high
    return CellsOfAreas(quotient, running)


def _running_quotients(x: Whole, number: int) -> Whole:
    """Return running sums over all axes but the first, divided; `x` is overwritten."""
    for axis in range(1, x.ndim):
        if x.shape[axis] > _SHORT:
            np.cumsum(x, axis=axis, out=x)
        else:
            for j in range(1, x.shape[axis]):
                along = x.swapaxes(0, axis)  # a view
                along[j] += along[j - 1]
    return np.floor_divide(x, number, out=x)


def _neighbours(axis: int, axes: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the indices of all but the first, and of all but the last, along an axis."""
    every = [slice(None)] * axes
    later, sooner = every.copy(), every.copy()
    later[axis], sooner[axis] = slice(1, None), slice(None, -1)
    return tuple(later), tuple(sooner)


def _table_without_overflow(structure: Structure, table: Table, final: Contrasts) -> Whole:
    """Return `table_from_contrasts`, after a proof that it did not wrap."""
    bound = sum(
        cells(structure.sizes, space) * max(int(part.max()), -int(part.min())) << len(space)
        for space in spaces_of(structure.sizes, table)
        if (part := final[space]).size
    )
    if bound >= 1 << ROOM:  # |N x| <= sum of 2**|T| N_T |D_T|: seldom so large
        high = table_from_contrasts(
            structure.sizes,
            table,
            {space: final[space] >> _LEFT for space in spaces_of(structure.sizes, table)},
        )
        if high.max() >= 1 << (ROOM - _LEFT) or high.min() <= -(1 << (ROOM - _LEFT)):
            raise FixedPointRangeError
    return table_from_contrasts(structure.sizes, table, final)
