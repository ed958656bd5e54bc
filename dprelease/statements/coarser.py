"""Cells of a table as sums of finer ones: which of its cells each of them lies in."""

from __future__ import annotations

from collections.abc import Callable

from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.grouping.places import Places

FINEST = "dp_finest"
"""The relation of finest cells: BIGINT `cell`, never NULL, and sums a0, a1, ..."""


def coarser(
    finest: KeySpace, keys: KeySpace, key_table: Callable[[Places], str]
) -> tuple[str, str]:
    """Return the cell of a table that a finest cell lies in, and the joins that it takes.

    Parameters
    ----------
    finest, keys
        Keys of the finest cells, and of the table: some of them, and maybe an area above the last
        level in its place.
    key_table
        Makes a table (code, value) of places, and gives its name.
    """
    places = {
        key.column: (stride, key.size)
        for key, stride in zip(finest.keys, finest.strides, strict=True)
    }
    joins, terms = "", []
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        step, size = places[key.read_from]
        code = f"{FINEST}.cell // {step} % {size}"
        if key.read_from != key.column:  # areas above: where each leaf lies
            areas = key_table(key.ancestors)
            joins += f" JOIN {areas} ON {areas}.code = {code}"
            code = f"{areas}.value"
        terms.append(f"({code}) * {stride}")
    return " + ".join(terms) or "0::BIGINT", joins
