"""Select which cells of a pair of tables are drawn: those that differ, and some others.

An event over some cells is an event over the whole answer, so its bound holds for the whole answer.
Cells in which both tables have the same value reveal nothing if every cell has independent noise.
Some of these cells are included to test this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.auditing.black_box.drawn_answers import choices_of, vectors_of
from dprelease.auditing.black_box.tiled_tables import Profiles, cells_of, differing_cells
from dprelease.auditing.exact_pairs import Side
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn

APART = 4
"""The number of cells throughout the table that are drawn in addition to cells that differ."""

Sides = tuple[Side, Side]


@dataclass(frozen=True, eq=False, slots=True)
class QueryCells:
    """The input of the noise stage for one query, in some cells of two tables.

    `columns` are all columns with noise, and `cells` the indices of the cells in the whole table.
    """

    columns: tuple[PlannedColumn, ...]
    cells: Integers
    vectors: tuple[dict[str, Integers], dict[str, Integers]]
    profiles: tuple[Profiles, Profiles]
    names: tuple[str, ...]
    units: tuple[Integers, Integers] | None

    @property
    def name(self) -> str:
        """Return the name of the query."""
        return self.columns[0].query.name

    @property
    def selecting(self) -> PlannedColumn | None:
        """Return the column that selects non-public keys; None if all keys are public."""
        found = [c for c in self.columns if c.measurement.finds_keys]
        return found[0] if found else None


def query_cells(
    sides: Sides, columns: Sequence[PlannedColumn], most: int, *, neighbours: bool
) -> QueryCells | None:
    """Return up to `most` cells in which two tables differ; None if there are none.

    `columns` are all planned columns of one query. `neighbours` adds some cells in which both
    tables have the same values.
    """
    name = columns[0].query.name
    noised_columns = tuple(c for c in columns if not c.measurement.exact)
    size = sides[0].tables[name].size
    moved = _cells_by_difference(sides, noised_columns, size)[:most]
    if not len(moved):
        return None
    cells = (
        np.unique(np.concatenate((moved, _other_cells(moved, size))))
        if neighbours
        else np.sort(moved)
    )
    vectors = [
        {
            c.measurement.name: side.vector(name, c.measurement.name)[cells]
            for c in vectors_of(noised_columns)
        }
        for side in sides
    ]
    profiles = [
        {
            c.measurement.name: cells_of(side.profile(name, c.measurement.name), cells.tolist())
            for c in choices_of(noised_columns)
        }
        for side in sides
    ]
    query = sides[0].queries[name]
    names: tuple[str, ...] = ()
    units = None
    if query.private is not None:
        names = tuple(str(query.keys.keys[0].values[cell]) for cell in cells.tolist())
        units = sides[0].units[name][cells], sides[1].units[name][cells]
    return QueryCells(
        noised_columns, cells, (vectors[0], vectors[1]), (profiles[0], profiles[1]), names, units
    )


def _cells_by_difference(sides: Sides, columns: Sequence[PlannedColumn], size: int) -> Integers:
    """Return the cells in which two tables differ, largest difference first."""
    name = columns[0].query.name
    far = np.zeros(size)
    for column in columns:
        own, mechanism = column.measurement.name, column.mechanism
        if column.measurement.is_choice:
            far[differing_cells(*(side.profile(name, own) for side in sides))] += (
                1.0 / mechanism.scale
            )
        else:
            one, other = (side.vector(name, own).astype(np.float64) for side in sides)
            far += np.abs(one - other) / mechanism.scale
    order = np.argsort(-far, kind="stable")
    return order[far[order] > 0].astype(np.int64)


def _other_cells(moved: Integers, size: int) -> Integers:
    """Return cells near the first cell that differs, and others throughout the table."""
    near = moved[0] + np.array([-1, 1])
    near = near[(near >= 0) & (near < size)]
    return np.concatenate((near, np.linspace(0, size - 1, min(size, APART)).astype(np.int64)))


def distance(sides: Sides, columns: Sequence[PlannedColumn]) -> float:
    """Return how well two tables can be distinguished: the sum of (shift / scale)^2."""
    total = 0.0
    for column in columns:
        name, own = column.query.name, column.measurement.name
        if column.measurement.exact:
            continue
        if column.measurement.is_choice:
            moved = len(differing_cells(*(side.profile(name, own) for side in sides)))
            total += moved / column.mechanism.scale**2
        else:
            one, other = (side.vector(name, own).astype(np.float64) for side in sides)
            total += float(np.sum((one - other) ** 2)) / column.mechanism.scale**2
    return total
