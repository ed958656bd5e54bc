"""The shape of a family: levels of areas times sets of attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.algebra import Table, cell_count
from dprelease.consistency.tree import Tree
from dprelease.numerics.lattice import Flags
from dprelease.postprocess.families import FamilyTable
from dprelease.query.grouping.group_keys import Key, KeySpace, Places
from dprelease.schema.release_parts.consistent import TargetSpec, grouping_table_name

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
    groupings: tuple[Key, ...] = ()
    """Keys with the group of each area of the last level as `ancestors`."""
    grouping_tables: tuple[PlacedTable, ...] = ()
    """Measured tables of groupings, in declared order. As in `grouped`, their `level` is a number
    above those of all levels."""

    @classmethod
    def of(cls, tables: Sequence[FamilyTable]) -> Shape:
        """Return the shape of the tables of a query with consistent tables."""
        finest = tables[0].query.finest or KeySpace(())
        attributes = tuple(key for key in finest.keys if not key.level)
        at = {key.column: i for i, key in enumerate(attributes)}
        areas: dict[int, Key] = {}
        groupings = tables[0].query.groupings
        names = [key.column for key in groupings]
        placed, grouped = [], []
        for table in tables:
            keys = table.query.keys.keys
            area = next((key for key in keys if key.leaf), None)
            order = [at[key.column] for key in keys if not key.leaf]
            rising = tuple(sorted(order))
            axes = tuple(rising.index(i) for i in order)
            if area is not None and not area.level:
                number = names.index(area.column)
                grouped.append((number, PlacedTable(table, number, Order(rising, axes))))
                continue
            if area is not None:
                areas[area.level] = area
            level = area.level if area is not None else 0
            placed.append(PlacedTable(table, level, Order(rising, axes)))
        from_the_top = tuple(areas[level] for level in sorted(areas))
        first = 1 + len(from_the_top)
        measured = tuple(replace(one, level=first + number) for number, one in grouped)
        return cls(attributes, from_the_top, tuple(placed), groupings, measured)

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
        """Return the measured tables of one level, or of one grouping, in declared order."""
        return [one for one in (*self.placed, *self.grouping_tables) if one.level == level]

    @cached_property
    def grouped(self) -> list[list[tuple[PlacedTable, PlacedTable]]]:
        """For each grouping, its tables, each with the table of the last level that it sums up.

        No level has the tables of groupings: their `level` is a number above those of all levels.
        """
        last = len(self.levels) - 1
        measured = {(one.level, one.attributes): one for one in self.grouping_tables}
        return [
            [
                (measured.get((level, one.attributes)) or _grouped_table(one, key, level, i), one)
                for one in self.at(last)
            ]
            for i, key in enumerate(self.groupings)
            for level in [last + 1 + i]
        ]

    def cells(self, placed: PlacedTable) -> int:
        """Return the number of cells that one area has in a table."""
        return cell_count(self.sizes, placed.attributes)


def _grouped_table(leaves: PlacedTable, key: Key, level: int, number: int) -> PlacedTable:
    """Return the table of a grouping that sums a table of the last level."""
    query = leaves.table.query
    names = [one.column for one in query.keys.keys]
    name = grouping_table_name(query.name, names, key.column, number)
    keys = KeySpace((key, *query.keys.keys[1:]))
    table = replace(leaves.table, query=replace(query, name=name, keys=keys))
    return replace(leaves, table=table, level=level)


@lru_cache(maxsize=8)
def tree_of(parents: tuple[Places, ...]) -> Tree:
    """Return the tree of one whole and these levels; the same one for the same family."""
    return Tree(1, [level.numbers for level in parents])


# The tables of a family that the declared targets refer to.

Aim = tuple[int, Table]
"""A level, or that of a grouping, and the attributes of a table."""


def aim_of(shape: Shape, target: TargetSpec) -> Aim | None:
    """Return the level and the table that a target names; None if there is no such table."""
    at = {key.column: i for i, key in enumerate(shape.attributes)}
    name = WHOLE if target.level is None else target.level
    levels = (*shape.levels, *(key.column for key in shape.groupings))
    if name not in levels or not all(key in at for key in target.table):
        return None
    areas = target.level in levels[1:]  # a level may have the name of the whole
    level = levels.index(name, 1) if areas else 0
    aim = level, tuple(sorted(at[key] for key in target.table))
    measured = (*shape.placed, *shape.grouping_tables)
    return aim if aim in {(one.level, one.attributes) for one in measured} else None


def table_weights(
    shape: Shape, targets: Sequence[TargetSpec], column: str
) -> dict[tuple[int, Table], float]:
    """Return the weights of the tables that have targets: 1 for a target without a weight."""
    found = {}
    for target in targets:
        aim = aim_of(shape, target)
        if aim is not None and target.column in (None, column):
            found[aim] = 1.0 if target.weight is None else float(target.weight)
    return found


def wrong_targets(
    shape: Shape, targets: tuple[TargetSpec, ...], columns: Sequence[str]
) -> Iterator[tuple[int, str]]:
    """Yield the index of each invalid target, and the reason.

    `columns`: the names of all columns; a target without a column is for each of them.
    """
    seen: dict[tuple[Aim, str], int] = {}
    for i, target in enumerate(targets):
        aim = aim_of(shape, target)
        meant = columns if target.column is None else [target.column]
        if aim is None:
            yield i, f"no table of the family is by these keys at level {target.level or WHOLE!r}"
        elif aim[0] >= len(shape.levels) and target.moe is not None:
            yield i, "the table of a grouping has a weight, but no margin as a target"
        elif not {*meant} <= {*columns}:
            yield i, f"'{target.column}' is not one of the columns {', '.join(columns)}"
        else:
            before = {seen.setdefault((aim, column), i) for column in meant} - {i}
            if before:
                yield i, f"the same table has target {min(before)} already"


# Structural zeros: impossible combinations of values, which are 0 in every integer table.

SHOWN = 8
"""Number of values of a key that a message lists."""

Zeros = Sequence[Mapping[str, Sequence[str]]]


def key_texts(key: Key) -> list[str]:
    """Return the values of a key as written in a release file."""
    if key.kind == "boolean":
        return ["false", "true"]
    return [value.isoformat() if isinstance(value, date) else str(value) for value in key.values]


def wrong_zeros(shape: Shape, zeros: Zeros) -> Iterator[tuple[int, str, str]]:
    """Yield entries with an unknown key or value: number, key and reason."""
    keys = {key.column: key for key in shape.attributes}
    for i, entry in enumerate(zeros):
        for name, values in entry.items():
            if name not in keys:
                yield i, name, f"'{name}' is not a key of these tables other than areas"
                continue
            known = key_texts(keys[name])
            some = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
            for value in dict.fromkeys(value for value in values if value not in known):
                yield i, name, f"'{value}' is no value of '{name}', which are {some}"


def zeros_of(shape: Shape, zeros: Zeros) -> Flags:
    """Return (n_i of all attributes) which finest cells are 0 everywhere."""
    found = np.zeros(shape.sizes, bool)
    for entry in zeros:
        is_impossible = np.ones(shape.sizes, bool)
        for i, key in enumerate(shape.attributes):
            if key.column in entry:
                is_listed = np.isin(key_texts(key), list(entry[key.column]))
                is_impossible &= is_listed.reshape(
                    [-1 if j == i else 1 for j in range(len(shape.sizes))]
                )
        found |= is_impossible
    return found
