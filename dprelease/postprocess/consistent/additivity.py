"""Second check: totals are the sums of their parts, in published files, in whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.postprocess.consistent.family_shape import Placed, Shape

AT_ONCE = 1 << 18
"""Cells of a table that are held at a time."""


Read = Callable[[Placed, int, int], Integers]


def unequal_sums(shape: Shape, tables: Sequence[Placed], read: Read) -> Iterator[str]:
    """Yield which tables are not the sums of finer ones, or of those of the level below.

    Parameters
    ----------
    tables
        Those that are published.
    read
        Gives (areas, n_i ...) of some areas of a table.
    """
    for level in range(len(shape.levels)):
        here = [one for one in tables if one.level == level]
        for fine, coarse in _pairs(here):
            if not _is_margin(shape, fine, coarse, read):
                yield f"'{coarse.name}' is not the sum of '{fine.name}'"
        above = [one for one in tables if one.level == level - 1]
        for wholes in above:
            parts = _smallest(one for one in here if {*one.attributes} >= {*wholes.attributes})
            if parts is not None and not _adds_up(shape, parts, wholes, read):
                yield f"'{wholes.name}' is not the sum of '{parts.name}'"


def _pairs(tables: Sequence[Placed]) -> Iterator[tuple[Placed, Placed]]:
    """Yield each table with one that is finer, the smallest of these."""
    for coarse in tables:
        finer = _smallest(one for one in tables if {*one.attributes} > {*coarse.attributes})
        if finer is not None:
            yield finer, coarse


def _smallest(tables: Iterable[Placed]) -> Placed | None:
    return min(tables, key=lambda one: len(one.attributes), default=None)


def spans(shape: Shape, placed: Placed) -> Iterator[tuple[int, int]]:
    """Yield areas of a table's level, as many at a time as are held."""
    per, stop = max(1, AT_ONCE // shape.cells(placed)), shape.tree.counts[placed.level]
    for start in range(0, stop, per):
        yield start, min(start + per, stop)


def _is_margin(shape: Shape, fine: Placed, coarse: Placed, read: Read) -> bool:
    axes = tuple(1 + i for i, a in enumerate(fine.attributes) if a not in coarse.attributes)
    return all(
        np.array_equal(read(fine, *span).sum(axis=axes), read(coarse, *span))
        for span in spans(shape, fine)
    )


def _adds_up(shape: Shape, parts: Placed, wholes: Placed, read: Read) -> bool:
    """Return whether areas have the sums of their parts: some areas at a time, and their parts."""
    starts = shape.tree.starts[wholes.level]
    per = max(1, AT_ONCE // shape.cells(parts))
    first, areas = 0, shape.tree.counts[wholes.level]
    while first < areas:
        last = int(np.searchsorted(starts, starts[first] + per, side="right")) - 1
        last = min(max(last, first + 1), first + per, areas)
        summed = _sums_of_parts(shape, parts, read, first, last, per)
        left = tuple(1 + i for i, a in enumerate(parts.attributes) if a not in wholes.attributes)
        if not np.array_equal(summed.sum(axis=left), read(wholes, first, last)):
            return False
        first = last
    return True


def _sums_of_parts(
    shape: Shape, parts: Placed, read: Read, first: int, last: int, per: int
) -> Integers:
    """Return the sums of the parts of some areas, `per` of the parts at a time."""
    starts, parents = shape.tree.starts[parts.level - 1], shape.tree.parents[parts.level - 1]
    low, high = int(starts[first]), int(starts[last])
    summed = np.zeros((last - first, *(shape.sizes[i] for i in parts.attributes)), np.int64)
    for start in range(low, high, per):
        stop = min(start + per, high)
        above = parents[start:stop] - first
        cuts = np.flatnonzero(np.diff(above, prepend=-1))
        summed[above[cuts]] += np.add.reduceat(read(parts, start, stop), cuts, axis=0)
    return summed
