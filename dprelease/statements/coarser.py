"""Cells of a table as sums of finer cells: the cell in which each finer one lies."""

from __future__ import annotations

from collections.abc import Callable

from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.grouping.places import Places

FINEST = "dp_finest"
"""The relation of finest cells: BIGINT `cell`, never NULL, and sums a0, a1, ..."""


LEVEL = "dp_level"
"""The relation of cells of one level of areas above the last: the same columns, all attributes."""


def coarser(
    finest: KeySpace, keys: KeySpace, key_table: Callable[[Places], str], relation: str = FINEST
) -> tuple[str, str]:
    """Return the cell of a table that contains a finest cell, and the joins that this needs.

    Parameters
    ----------
    finest, keys
        Keys of the finest cells, and of the table: a subset, possibly with an area above the last
        level in its place.
    key_table
        Makes a table (code, value) of positions, and returns its name.
    relation
        The relation of the finest cells.
    """
    places = {
        key.column: (stride, key.size)
        for key, stride in zip(finest.keys, finest.strides, strict=True)
    }
    joins, terms = "", []
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        is_there = key.column in places
        step, size = places[key.column if is_there else key.read_from]
        code = f"{relation}.cell // {step} % {size}"
        if not is_there:  # areas above: the area of each leaf
            areas = key_table(key.ancestors)
            joins += f" JOIN {areas} ON {areas}.code = {code}"
            code = f"{areas}.value"
        terms.append(f"({code}) * {stride}")
    return " + ".join(terms) or "0::BIGINT", joins


def level_above(finest: KeySpace, keys: KeySpace) -> KeySpace | None:
    """Return the finest cells of a table's level; None if summing them first saves nothing.

    These are tables of the last level, and those with all attributes.
    """
    areas = [key for key in keys.keys if key.level]
    attributes = [key for key in finest.keys if not key.level]
    same = {key.column for key in areas} == {key.column for key in finest.keys if key.level}
    if same or len(keys.keys) == len(areas) + len(attributes):
        return None
    return KeySpace((*areas, *attributes))
