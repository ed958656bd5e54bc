"""List all combinations of attributes that a record can have, and the cells that count them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.errors import DeclarationError, Place
from dprelease.numerics.lattice import Flags, Integers
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.reconstruction.attributes import OUTSIDE, Attribute, attributes_of
from dprelease.reconstruction.counted_tables import CountedTable

MOST_COMBINATIONS = 2_000_000
"""The maximum number of combinations, which take 8 bytes for each attribute and each table."""


@dataclass(frozen=True, slots=True)
class Combinations:
    """All combinations of values that at least one table counts.

    `values` has the shape (combinations, attributes), with the indices of values. `complete` says
    which combinations have a cell of every key; other combinations are counted only by tables
    without one of the attributes. `cells` has the cell of each combination by table, which is
    `OUTSIDE` if the table does not count the combination.
    """

    attributes: tuple[Attribute, ...]
    values: Integers
    complete: Flags
    cells: dict[str, Integers]

    def __len__(self) -> int:
        return len(self.values)

    def places(self, column: str) -> Integers:
        """Return the cell of a key that contains each combination."""
        for i, attribute in enumerate(self.attributes):
            if column in attribute.places:
                found: Integers = attribute.places[column][self.values[:, i]]
                return found
        raise KeyError(column)


def combinations_of(tables: Sequence[CountedTable]) -> Combinations:
    """Return all combinations that tables count.

    Raises DeclarationError: DP-ATTACK-003 for more than `MOST_COMBINATIONS` combinations.
    """
    attributes = attributes_of([table.query for table in tables])
    sizes = [attribute.size for attribute in attributes]
    if math.prod(sizes) > MOST_COMBINATIONS:
        description = " x ".join(f"{a.column} {a.size:,}" for a in attributes)
        raise DeclarationError(
            "DP-ATTACK-003", place=Place(key="queries"), found=description, limit=MOST_COMBINATIONS
        )
    grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), -1).T
    every = np.ones(len(grid), dtype=np.bool_)
    combinations = Combinations(attributes, grid, every, {})
    cells = {table.name: _cell_indices(combinations, table.query.keys) for table in tables}
    counted = np.any([cell_numbers != OUTSIDE for cell_numbers in cells.values()], axis=0)
    complete = np.all([a.complete[grid[:, i]] for i, a in enumerate(attributes)] or [every], axis=0)
    return Combinations(
        attributes,
        grid[counted],
        complete[counted],
        {name: cell_numbers[counted] for name, cell_numbers in cells.items()},
    )


def _cell_indices(combinations: Combinations, keys: KeySpace) -> Integers:
    """Return the index of the cell of each combination, which is `OUTSIDE` if it has no cell."""
    cells = np.zeros(len(combinations), dtype=np.int64)
    inside = np.ones(len(combinations), dtype=np.bool_)
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        places = combinations.places(key.column)
        inside &= places >= 0
        cells += np.maximum(places, 0) * stride
    found: Integers = np.where(inside, cells, OUTSIDE)
    return found
