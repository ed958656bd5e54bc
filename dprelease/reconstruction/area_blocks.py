"""The parts that are solved one after the other: areas whose tables have nothing in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.errors import DeclarationError, Place
from dprelease.numerics.lattice import Integers
from dprelease.reconstruction.counted_tables import CountedTable
from dprelease.reconstruction.record_combinations import Combinations

MOST_TOGETHER = 2_000
"""Combinations up to which all tables are solved as one; more are solved area by area."""


@dataclass(frozen=True, slots=True)
class Areas:
    """How combinations are divided: an attribute, None for not at all, and what that leaves out.

    `blocks`: numbers of combinations, those of one area each. `tables`: those that tell areas apart
    and so belong to one of them alone, cell by cell.
    """

    attribute: int | None
    blocks: tuple[Integers, ...]
    tables: tuple[CountedTable, ...]
    left_out: dict[str, str]


def area_of(
    combinations: Combinations, tables: Sequence[CountedTable], column: str | None
) -> int | None:
    """Return the attribute that areas are values of: a column, or what most tables tell apart.

    Raises
    ------
    DeclarationError
        DP-ATTACK-005 for a column that no table counts by.
    """
    names = [attribute.column for attribute in combinations.attributes]
    if column is not None:
        for i, attribute in enumerate(combinations.attributes):
            if column == attribute.column or column in attribute.places:
                return i
        known = ", ".join(names) or "none"
        raise DeclarationError("DP-ATTACK-005", place=Place(key="area"), column=column, known=known)
    if len(names) < 2:
        return None
    told = [
        sum(attribute.tells_apart(one.query.keys.keys) for one in tables)
        for attribute in combinations.attributes
    ]
    return int(np.argmax(told))


def divide_by_area(
    combinations: Combinations, tables: Sequence[CountedTable], attribute: int | None
) -> Areas:
    """Return all as one block where that is small, or else a block for each area.

    Raises
    ------
    DeclarationError
        DP-ATTACK-005 where there are too many combinations, and no table that tells areas apart.
    """
    if len(combinations) <= MOST_TOGETHER:
        return Areas(attribute, (np.arange(len(combinations)),), tuple(tables), {})
    apart: list[CountedTable] = []
    if attribute is not None:
        areas = combinations.attributes[attribute]
        apart = [one for one in tables if areas.tells_apart(one.query.keys.keys)]
    if attribute is None or not apart:
        column = "" if attribute is None else combinations.attributes[attribute].column
        known = ", ".join(one.column for one in combinations.attributes)
        raise DeclarationError("DP-ATTACK-005", place=Place(key="area"), column=column, known=known)
    values = combinations.values[:, attribute]
    inside = areas.complete[values]
    counted = np.any([combinations.cells[one.name] >= 0 for one in apart], axis=0) & inside
    blocks = [np.flatnonzero(counted & (values == value)) for value in range(areas.size)]
    why = f"it has no cell for each '{areas.column}', by which all others are solved"
    left_out = {one.name: why for one in tables if one not in apart}
    return Areas(attribute, tuple(b for b in blocks if len(b)), tuple(apart), left_out)
