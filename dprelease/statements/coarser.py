"""SQL that maps each of the finest cells to the cell of a table that contains it."""

from __future__ import annotations

from collections.abc import Callable

from dprelease.query.grouping.group_keys import KeySpace, Places

FINEST_RELATION = "dp_finest"
"""The relation of the finest cells: a BIGINT `cell`, never NULL, and the sums a0, a1, ..."""


LEVEL_RELATION = "dp_level"
"""The relation of the cells of a higher level of areas with all attributes.

Its columns are those of `dp_finest`."""


def containing_cell_sql(
    finest: KeySpace,
    keys: KeySpace,
    key_table: Callable[[Places], str],
    relation: str = FINEST_RELATION,
) -> tuple[str, str]:
    """Return SQL of the cell of a table that contains a finest cell, and the joins that it needs.

    Parameters
    ----------
    finest
        The keys of the finest cells.
    keys
        The keys of the table: some of the keys of the finest cells, where an area of a higher level
        may replace the area of the last level.
    key_table
        A function that adds a table (code, value) of positions to the statement, and returns the
        name of that table.
    relation
        The name of the relation that holds the finest cells.
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
        if not is_there:  # a higher level: look up the area that contains each leaf
            areas = key_table(key.ancestors)
            joins += f" JOIN {areas} ON {areas}.code = {code}"
            code = f"{areas}.value"
        terms.append(f"({code}) * {stride}")
    return " + ".join(terms) or "0::BIGINT", joins


def level_above(finest: KeySpace, keys: KeySpace) -> KeySpace | None:
    """Return the keys of the finest cells at a table's level of areas, or at its grouping.

    Returns None if summing the cells of that level first would save nothing: for tables of the
    last level, and for tables with all attributes.
    """
    areas = [key for key in keys.keys if key.leaf]
    attributes = [key for key in finest.keys if not key.leaf]
    same = {key.column for key in areas} == {key.column for key in finest.keys if key.leaf}
    # Reading the finest cells once for all tables of a level pays only if the level has fewer
    # cells.
    if same or len(keys.keys) == len(areas) + len(attributes):
        return None
    return KeySpace((*areas, *attributes))
