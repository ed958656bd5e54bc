"""Define the attributes of records, which are the distinguishable values of counted columns.

Tables may have several keys from one column, such as ages by year and by group, or a tract and its
county. Then a value of the attribute is a possible combination of values of these keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dprelease.numerics.lattice import Flags, Integers
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, CutColumn, IntegerColumn

OUTSIDE = -1
"""The cell of a value that is in no cell of a key, so that rows with this value are not counted."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column of the records.

    `places` has the cell that contains each value, by key. `leaf` has the texts of the values if
    the column has levels of areas, and is empty otherwise.
    """

    column: str
    keys: tuple[Key, ...]
    places: dict[str, Integers]
    leaf: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of values, with values outside all cells."""
        return len(next(iter(self.places.values())))

    @property
    def complete(self) -> Flags:
        """Return which of the values are in a cell of every key."""
        inside: Flags = np.all([places >= 0 for places in self.places.values()], axis=0)
        return inside

    def separates_values(self, keys: Sequence[Key]) -> bool:
        """Return whether no two complete values are in the same cells of these keys."""
        named = [self.places[key.column] for key in keys if key.column in self.places]
        if not named:
            return False
        rows = np.stack(named)[:, self.complete]
        return bool(np.unique(rows, axis=1).shape[1] == rows.shape[1])


def attributes_of(queries: Sequence[Query]) -> tuple[Attribute, ...]:
    """Return the attributes of tables whose keys have unique names, in order of appearance."""
    columns = columns_of(queries)
    keys: dict[str, dict[str, Key]] = {}
    leaves: dict[str, Key] = {}
    for query in queries:
        finest = () if query.finest is None else query.finest.keys
        for key in query.keys.keys:
            column = _column_of(key, columns)
            keys.setdefault(column, {})[key.column] = key
            leaves |= {one.column: one for one in finest if key.leaf == one.column}
    return tuple(
        _area_attribute(column, tuple(keys_of_column.values()), leaves[column])
        if column in leaves
        else _value_attribute(column, tuple(keys_of_column.values()), columns)
        for column, keys_of_column in keys.items()
    )


def columns_of(queries: Sequence[Query]) -> dict[str, Column]:
    """Return the columns of all queries by name.

    If a query groups by a column, the result has the column as this query defines it.
    """
    columns: dict[str, Column] = {}
    for query in queries:
        columns |= {key.column: query.table.columns[key.column] for key in query.keys.keys}
    for query in queries:
        columns = {**query.table.columns, **columns}
    return columns


def _column_of(key: Key, columns: Mapping[str, Column]) -> str:
    """Return the column whose values a key groups: for bands, the column that is cut into bands.

    For a level of areas, this is the column of the smallest areas.
    """
    if key.leaf:
        return key.leaf
    column: Column = columns[key.column]
    return column.cut if isinstance(column, CutColumn) else key.column


def _value_attribute(
    column: str, keys: tuple[Key, ...], columns: Mapping[str, Column]
) -> Attribute:
    """Return the attribute of a column without levels of areas, with the cells of its values."""
    first = keys[0]
    rows: list[tuple[int, ...]]
    if len(keys) == 1 and not isinstance(columns[first.column], CutColumn):
        rows = [(place,) for place in range(first.size)]
        others = first.others is None and first.kind != "boolean"
        rows += [(OUTSIDE,)] if first.nulls is None or others else []
    else:
        numbers = _distinguishing_numbers(column, keys, columns)
        rows = [tuple(_cell_of_number(key, number, columns) for key in keys) for number in numbers]
        rows.append(tuple(OUTSIDE if key.nulls is None else key.nulls for key in keys))
    inside = dict.fromkeys(sorted(row for row in rows if min(row) >= 0))
    outside = dict.fromkeys(row for row in rows if min(row) < 0)
    places = np.array([*inside, *outside], dtype=np.int64).T
    return Attribute(column, keys, {key.column: places[i] for i, key in enumerate(keys)})


def _area_attribute(column: str, keys: tuple[Key, ...], leaf: Key) -> Attribute:
    """Return the attribute of a column with levels of areas; its values are the smallest areas."""
    texts = tuple(map(str, leaf.values))
    places = {}
    for key in keys:
        if key.leaf:
            inside = [key.ancestors[i] for i in range(len(texts))]
        else:
            at = {str(value): i for i, value in enumerate(key.values)}
            inside = [at[text] for text in texts]
        places[key.column] = np.array([*inside, OUTSIDE], dtype=np.int64)
    return Attribute(column, keys, places, texts)


def _distinguishing_numbers(
    column: str, keys: Sequence[Key], columns: Mapping[str, Column]
) -> Iterator[Fraction]:
    """Yield numbers, of which every possible cell, and every gap between cells, contains one."""
    known: set[Fraction] = set()
    for key in keys:
        declared = columns[key.column]
        if isinstance(declared, CutColumn):
            known |= {*declared.edges}
        elif isinstance(declared, IntegerColumn):
            known |= {Fraction(value) for value in key.whole}
    ends = sorted(known)
    half = Fraction(1, 2)
    is_integer = isinstance(columns.get(column), IntegerColumn)
    between = [(a + b) * half for a, b in pairwise(ends)]
    # Also the edges themselves, because they say on which side a cell is closed.
    numbers = {ends[0] - 1, *ends, ends[-1] + 1}
    # Between two integer edges, at most one integer is needed.
    numbers |= {Fraction(number.__floor__()) for number in between} if is_integer else {*between}
    yield from sorted(numbers)


def _cell_of_number(key: Key, number: Fraction, columns: Mapping[str, Column]) -> int:
    declared = columns[key.column]
    other = OUTSIDE if key.others is None else key.others
    if isinstance(declared, CutColumn):
        edges, left = declared.edges, declared.closed == "left"
        for i, (low, high) in enumerate(pairwise(edges)):
            if (low <= number < high) if left else (low < number <= high):
                return i
        return other
    place = number - key.whole[0]
    inside = number.denominator == 1 and 0 <= place < len(key.values)
    return int(place) if inside else other
