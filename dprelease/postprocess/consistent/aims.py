"""The tables of a family that the declared targets refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dprelease.consistency.algebra import Table
from dprelease.postprocess.consistent.family_shape import WHOLE, Shape
from dprelease.schema.release_parts.consistent import TargetSpec

Aim = tuple[int, Table]
"""A level, and the attributes of a table."""


def aim_of(shape: Shape, target: TargetSpec) -> Aim | None:
    """Return the level and the table that a target names; None if there is no such table."""
    at = {key.column: i for i, key in enumerate(shape.attributes)}
    name = WHOLE if target.level is None else target.level
    if name not in shape.levels or not all(key in at for key in target.table):
        return None
    areas = target.level in shape.levels[1:]  # a level may have the name of the whole
    level = shape.levels.index(name, 1) if areas else 0
    aim = level, tuple(sorted(at[key] for key in target.table))
    return aim if aim in {(one.level, one.attributes) for one in shape.placed} else None


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
        elif not {*meant} <= {*columns}:
            yield i, f"'{target.column}' is not one of the columns {', '.join(columns)}"
        else:
            before = {seen.setdefault((aim, column), i) for column in meant} - {i}
            if before:
                yield i, f"the same table has target {min(before)} already"
