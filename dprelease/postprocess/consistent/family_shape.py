"""The shape of a family: levels of areas times sets of attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cell_count
from dprelease.consistency.tree import Tree
from dprelease.postprocess.families import FamilyTable
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.grouping.places import Places

Kind = TypeVar("Kind", bound=np.generic)

WHOLE = "whole"
"""Name in the manifest of the level above all areas."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the cells of a table in a file, attribute after attribute.

    `axes`: for each attribute in the order of the keys, its place among the rising ones.
    """

    attributes: Table
    axes: tuple[int, ...]

    def rising(self, values: NDArray[Kind], sizes: Sequence[int]) -> NDArray[Kind]:
        """Return cells as they stand in a file as (areas, n_i for the rising attributes)."""
        order = [self.attributes[position] for position in self.axes]
        shaped = values.reshape(-1, *(sizes[i] for i in order))
        return shaped.transpose(0, *(1 + self.axes.index(i) for i in range(len(self.axes))))

    def flatten_for_file(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return (areas, n_i for the rising attributes) as they stand in a file, one dimension."""
        return values.transpose(0, *(1 + position for position in self.axes)).reshape(-1)


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """One table: its level, and its attributes in rising order and as its keys order them."""

    table: FamilyTable
    level: int
    order: Order

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.query.name

    @property
    def attributes(self) -> Table:
        """Return its attributes, in rising order."""
        return self.order.attributes


@dataclass(frozen=True)
class Shape:
    """A family: its attributes, its levels, and its tables, in declared order."""

    attributes: tuple[Key, ...]
    areas: tuple[Key, ...]
    """Of each level below the whole, from the largest areas on."""
    placed: tuple[PlacedTable, ...]

    @classmethod
    def of(cls, tables: Sequence[FamilyTable]) -> Shape:
        """Return the shape of the tables of a query with consistent tables."""
        finest = tables[0].query.finest or KeySpace(())
        attributes = tuple(key for key in finest.keys if not key.level)
        at = {key.column: i for i, key in enumerate(attributes)}
        areas: dict[int, Key] = {}
        placed = []
        for table in tables:
            keys = table.query.keys.keys
            levels = [key for key in keys if key.level]
            areas |= {key.level: key for key in levels}
            order = [at[key.column] for key in keys if not key.level]
            rising = tuple(sorted(order))
            axes = tuple(rising.index(i) for i in order)
            placed.append(PlacedTable(table, levels[0].level if levels else 0, Order(rising, axes)))
        return cls(attributes, tuple(areas[level] for level in sorted(areas)), tuple(placed))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of values of each attribute."""
        return tuple(key.size for key in self.attributes)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the names of the levels, from the whole down."""
        return (WHOLE, *(key.column for key in self.areas))

    @property
    def parents(self) -> tuple[Places, ...]:
        """Return for each level below the whole the area above of each of its areas."""
        return tuple(key.parents for key in self.areas)

    @cached_property
    def tree(self) -> Tree:
        """Return the areas."""
        return tree_of(self.parents)

    @property
    def everything(self) -> Table:
        """Return the table of all attributes."""
        return tuple(range(len(self.attributes)))

    @property
    def leaves(self) -> KeySpace:
        """Return the finest cells: the last level of areas and all attributes."""
        return KeySpace((*self.areas[-1:], *self.attributes))

    def at(self, level: int) -> list[PlacedTable]:
        """Return the tables of one level, in declared order."""
        return [one for one in self.placed if one.level == level]

    def cells(self, placed: PlacedTable) -> int:
        """Return the number of cells that one area has in a table."""
        return cell_count(self.sizes, placed.attributes)


@lru_cache(maxsize=8)
def tree_of(parents: tuple[Places, ...]) -> Tree:
    """Return the tree of one whole and these levels; the same one for the same family."""
    return Tree(1, [level.numbers for level in parents])
