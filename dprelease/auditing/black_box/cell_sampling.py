"""Select the cells of a pair of tables for which answers are drawn: differing and other cells.

An event over some cells is an event over the whole answer, so its bound holds for the whole answer.
Cells in which both tables have the same value reveal nothing if the noise of all cells is
independent. Some of these cells are included to test whether it is.

The module also returns the sources of the answers about selected cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.auditing.black_box.drawn_answers import (
    ChoicesInCells,
    CombinedSources,
    NoisedCells,
    NumbersUnderKeys,
    SelectedKeys,
    Source,
    choice_columns,
    vector_columns,
)
from dprelease.auditing.black_box.tiled_tables import Profiles, differing_cells, profile_of_cells
from dprelease.auditing.exact_pairs import Side
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn

SPREAD_CELLS = 4
"""The number of cells, spread over the table, that are drawn in addition to differing cells."""

Sides = tuple[Side, Side]


@dataclass(frozen=True, eq=False, slots=True)
class QueryCells:
    """The input of the noise stage for one query, in some cells of two tables.

    `columns` are all columns with noise, and `cells` has the indices of the cells in the whole
    table. `vectors` and `profiles` have the exact integers of the cells in both tables. If the keys
    are non-public, `names` has the name of the key of each cell, and `units` has the numbers of
    units of the keys in both tables.
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
    def key_selection(self) -> PlannedColumn | None:
        """Return the column that selects non-public keys; None if all keys are public."""
        found = [c for c in self.columns if c.measurement.finds_keys]
        return found[0] if found else None


def query_cells(
    sides: Sides, columns: Sequence[PlannedColumn], most: int, *, with_equal_cells: bool
) -> QueryCells | None:
    """Return up to `most` cells in which two tables differ; None if the tables don't differ.

    `columns` are all planned columns of one query. With `with_equal_cells`, the result also has
    some cells in which both tables have the same values.
    """
    name = columns[0].query.name
    noised_columns = tuple(c for c in columns if not c.measurement.exact)
    size = sides[0].tables[name].size
    differing = _cells_by_difference(sides, noised_columns, size)[:most]
    if not len(differing):
        return None
    cells = (
        np.unique(np.concatenate((differing, _other_cells(differing, size))))
        if with_equal_cells
        else np.sort(differing)
    )
    vectors = [
        {
            c.measurement.name: side.vector(name, c.measurement.name)[cells]
            for c in vector_columns(noised_columns)
        }
        for side in sides
    ]
    profiles = [
        {
            c.measurement.name: profile_of_cells(
                side.profile(name, c.measurement.name), cells.tolist()
            )
            for c in choice_columns(noised_columns)
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
    """Return the cells in which two tables differ, in descending order of the difference."""
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
    # The most distinguishable cells first, because only `most` of them are drawn.
    order = np.argsort(-far, kind="stable")
    return order[far[order] > 0].astype(np.int64)


def _other_cells(differing: Integers, size: int) -> Integers:
    """Return the neighbours of the first differing cell, and cells spread over the table."""
    # Noise that is shared or shifted between cells shows up in neighbours first.
    near = differing[0] + np.array([-1, 1])
    near = near[(near >= 0) & (near < size)]
    return np.concatenate(
        (near, np.linspace(0, size - 1, min(size, SPREAD_CELLS)).astype(np.int64))
    )


def distinguishability(sides: Sides, columns: Sequence[PlannedColumn]) -> float:
    """Return how well two tables can be distinguished, as the sum of (shift / scale)^2."""
    total = 0.0
    for column in columns:
        name, own = column.query.name, column.measurement.name
        if column.measurement.exact:
            continue
        if column.measurement.is_choice:
            differing = len(differing_cells(*(side.profile(name, own) for side in sides)))
            total += differing / column.mechanism.scale**2
        else:
            one, other = (side.vector(name, own).astype(np.float64) for side in sides)
            total += float(np.sum((one - other) ** 2)) / column.mechanism.scale**2
    return total


def noise_source(cells: QueryCells) -> NoisedCells:
    """Return the source of the noisy vectors of some cells."""
    cell_numbers = tuple(cells.cells.tolist())
    return NoisedCells(vector_columns(cells.columns), cell_numbers, cells.vectors)


def choice_source(cells: QueryCells) -> ChoicesInCells:
    """Return the source of the choices in some cells."""
    cell_numbers = tuple(cells.cells.tolist())
    return ChoicesInCells(choice_columns(cells.columns), cell_numbers, cells.profiles)


def key_source(cells: QueryCells, key_selection: PlannedColumn) -> SelectedKeys:
    """Return the source of the selection of non-public keys."""
    if cells.units is None:
        raise TypeError("public keys are not selected")
    return SelectedKeys(key_selection, cells.units)


def all_numbers_source(cells: QueryCells) -> Source:
    """Return the source of all numbers that a release publishes about some cells."""
    parts: list[Source] = []
    if vector_columns(cells.columns):
        parts.append(noise_source(cells))
    if choice_columns(cells.columns):
        parts.append(choice_source(cells))
    if cells.key_selection is None:
        return CombinedSources(tuple(parts))
    return NumbersUnderKeys(key_source(cells, cells.key_selection), tuple(parts))
