"""Second check: totals are the sums of their parts, in published files, in whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape

AT_ONCE = 1 << 18
"""Number of cells of a table in memory at a time."""


Read = Callable[[PlacedTable, int, int], Integers]


def unequal_groups(shape: Shape, read: Read) -> Iterator[str]:
    """Yield the tables of groupings that are not the sums of the areas of the last level."""
    for key, tables in zip(shape.groupings, shape.grouped, strict=True):
        groups = key.ancestors.numbers
        for grouped, leaves in tables:
            total = np.zeros_like(read(grouped, 0, key.size))
            for start, stop in spans(shape, leaves):
                np.add.at(total, groups[start:stop], read(leaves, start, stop))
            if not np.array_equal(total, read(grouped, 0, key.size)):
                yield f"'{grouped.name}' is not the sum of '{leaves.name}'"


def unequal_sums(shape: Shape, tables: Sequence[PlacedTable], read: Read) -> Iterator[str]:
    """Yield the tables that are not the sums of finer tables, or of tables of the level below.

    - `tables`: the published tables.
    - `read`: a function that returns the cells (areas, n_i ...) of some areas of a table.
    """
    for level in range(len(shape.levels)):
        here = [one for one in tables if one.level == level]
        for fine, coarse in _tables_by_finer(here, _smallest_finer(here)):
            for wrong in _unequal_margins(shape, fine, coarse, read):
                yield f"'{wrong.name}' is not the sum of '{fine.name}'"
        above = [one for one in tables if one.level == level - 1]
        for parts, wholes in _tables_by_finer(above, _smallest_with_attributes(here)):
            for wrong in _unequal_level_sums(shape, parts, wholes, read):
                yield f"'{wrong.name}' is not the sum of '{parts.name}'"


FinerTable = Callable[[PlacedTable], PlacedTable | None]


def _tables_by_finer(
    tables: Sequence[PlacedTable], of: FinerTable
) -> list[tuple[PlacedTable, list[PlacedTable]]]:
    """Return each finer table with all tables that are its sums, so that it is read only once."""
    found: dict[str, tuple[PlacedTable, list[PlacedTable]]] = {}
    for one in tables:
        finer = of(one)
        if finer is not None:
            found.setdefault(finer.name, (finer, []))[1].append(one)
    return list(found.values())


def _smallest_finer(tables: Sequence[PlacedTable]) -> FinerTable:
    """Return a function from a table to the smallest table with additional attributes."""
    return lambda one: _smallest(t for t in tables if {*t.attributes} > {*one.attributes})


def _smallest_with_attributes(tables: Sequence[PlacedTable]) -> FinerTable:
    return lambda one: _smallest(t for t in tables if {*t.attributes} >= {*one.attributes})


def _smallest(tables: Iterable[PlacedTable]) -> PlacedTable | None:
    return min(tables, key=lambda one: len(one.attributes), default=None)


def spans(shape: Shape, placed: PlacedTable) -> Iterator[tuple[int, int]]:
    """Yield ranges of areas of the level of a table that fit in memory."""
    batch_areas, stop = max(1, AT_ONCE // shape.cells(placed)), shape.tree.counts[placed.level]
    for start in range(0, stop, batch_areas):
        yield start, min(start + batch_areas, stop)


def _axes_to_sum(fine: PlacedTable, coarse: PlacedTable) -> tuple[int, ...]:
    return tuple(1 + i for i, a in enumerate(fine.attributes) if a not in coarse.attributes)


def _unequal_margins(
    shape: Shape, fine: PlacedTable, tables: Sequence[PlacedTable], read: Read
) -> Iterator[PlacedTable]:
    """Yield the tables that are not the sums of the finer table `fine`."""
    wrong: set[str] = set()
    for span in spans(shape, fine):
        finer_cells = read(fine, *span)
        for one in tables:
            if not np.array_equal(finer_cells.sum(axis=_axes_to_sum(fine, one)), read(one, *span)):
                wrong.add(one.name)
    yield from (one for one in tables if one.name in wrong)


def _unequal_level_sums(
    shape: Shape, parts: PlacedTable, tables: Sequence[PlacedTable], read: Read
) -> Iterator[PlacedTable]:
    """Yield tables whose areas don't have the sums of their parts: some areas at a time."""
    level = parts.level - 1
    starts = shape.tree.starts[level]
    batch_areas = max(1, AT_ONCE // shape.cells(parts))
    first, areas = 0, shape.tree.counts[level]
    wrong: set[str] = set()
    while first < areas:
        last = int(np.searchsorted(starts, starts[first] + batch_areas, side="right")) - 1
        # At least one area, even if its parts alone are more than a batch; `_sums_of_parts` then
        # reads these in turns.
        last = min(max(last, first + 1), first + batch_areas, areas)
        summed = _sums_of_parts(shape, parts, read, first, last, batch_areas)
        for one in tables:
            if not np.array_equal(
                summed.sum(axis=_axes_to_sum(parts, one)), read(one, first, last)
            ):
                wrong.add(one.name)
        first = last
    yield from (one for one in tables if one.name in wrong)


def _sums_of_parts(
    shape: Shape, parts: PlacedTable, read: Read, first: int, last: int, batch_areas: int
) -> Integers:
    """Return the sums of the parts of some areas, `batch_areas` of the parts at a time."""
    starts, parents = shape.tree.starts[parts.level - 1], shape.tree.parents[parts.level - 1]
    low, high = int(starts[first]), int(starts[last])
    summed = np.zeros((last - first, *(shape.sizes[i] for i in parts.attributes)), np.int64)
    for start in range(low, high, batch_areas):
        stop = min(start + batch_areas, high)
        above = parents[start:stop] - first
        cuts = np.flatnonzero(np.diff(above, prepend=-1))
        summed[above[cuts]] += np.add.reduceat(read(parts, start, stop), cuts, axis=0)
    return summed
