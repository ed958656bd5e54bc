"""The keys of consistent tables: levels of areas, other keys (attributes), and the finest cells.

Only the last level of areas is read from the rows. The higher levels, and other groupings of the
same areas, follow from the declared nesting, so that no row can contradict itself, and every table
is a sum of the finest cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dprelease.query.grouping.group_keys import Key, KeySpace, Places, key_of
from dprelease.schema.columns import CategoryColumn, Column, CutColumn
from dprelease.schema.release import QuerySpec
from dprelease.schema.table import Table

MOST_FINEST = 2**62
"""Maximum number of finest cells, because their numbers in SQL are 64-bit integers."""

MOST_MEASURED_GROUPS = 300
"""Maximum number of groups with measured tables: the equations of all groups are solved exactly."""

MOST_COVARIANCES = 12_000_000
"""Maximum number of covariances of areas of the last level with measured groups, for memory."""

Refuse = Callable[..., None]


@dataclass(frozen=True, slots=True)
class FamilyKeys:
    """The keys of areas, by column, and the keys of the finest cells.

    The finest cells have the last level of areas as their first key, then every attribute.
    `groupings` are further keys whose values contain areas of the last level.
    """

    levels: Mapping[str, Key]
    finest: KeySpace
    groupings: tuple[Key, ...] = ()

    @property
    def areas(self) -> Mapping[str, Key]:
        """The keys of areas of levels and of groupings, by column."""
        return {**self.levels, **{key.column: key for key in self.groupings}}

    def finest_cell_counts(self, keys: KeySpace) -> tuple[int, int]:
        """Return the number of finest cells, and the largest number of them in one table cell."""
        of_table = {key.read_from: key for key in keys.keys}
        most = 1
        for key in self.finest.keys:
            coarser = of_table.get(key.column)
            if coarser is None:
                most *= key.size
            elif coarser.column != key.column:
                most *= coarser.ancestors.most_occurrences
        return self.finest.size, most


def family_keys(spec: QuerySpec, table: Table, refuse: Refuse) -> FamilyKeys:
    """Return the keys of all tables that a query with `consistent` declares.

    The function adds errors for impossible keys, at their key paths below the query. Unknown
    columns, and columns that can't be keys, are refused later, with the keys of each table.
    """
    levels = _area_keys(spec, table.columns, refuse)
    attributes = dict.fromkeys(key for keys in spec.attribute_sets for key in keys)
    columns = dict(table.columns)
    if spec.histogram is not None:
        attributes[spec.histogram.key] = None
        columns[spec.histogram.key] = spec.histogram.cut
    _refuse_overlaps(spec, list(attributes), columns, refuse)
    keys_of_table = [key_of(name, columns[name]) for name in attributes if name in columns]
    keys = [key for key in keys_of_table if isinstance(key, Key)]
    finest = KeySpace((*[*levels.values()][-1:], *keys))
    if finest.size > MOST_FINEST:
        refuse("DP-CONSIST-004", "consistent", cells=finest.size, limit=MOST_FINEST)
    if spec.groupings and not spec.hierarchy:
        where, reason = ("consistent", "groupings"), "there is no hierarchy of areas"
        refuse("DP-CONSIST-013", *where, key="groupings", reason=reason)
    return FamilyKeys(levels, finest, _grouping_keys(spec, columns, refuse) if levels else ())


def _area_keys(spec: QuerySpec, columns: Mapping[str, Column], refuse: Refuse) -> dict[str, Key]:
    """Return the keys of areas by column, without the keys that are refused."""
    declared: list[CategoryColumn] = []
    for i, name in enumerate(spec.hierarchy):
        column = columns.get(name)
        if column is None:
            return {}  # the error is reported with the tables that have this key
        if not isinstance(column, CategoryColumn) or column.values is None:
            refuse("DP-CONSIST-001", "hierarchy", i, column=name, reason="it is no category")
            return {}
        above = spec.hierarchy[i - 1] if i else None
        if above is not None and above not in outer_columns(name, columns):
            reason = f"its values are not declared to lie within those of '{above}'"
            if above in _containing_columns(name, columns):
                reason = (
                    f"its first `within` does not lead to '{above}', which can be one of the "
                    "`groupings` of `consistent`"
                )
            refuse("DP-CONSIST-001", "hierarchy", i, column=name, reason=reason)
            return {}
        declared.append(column)
    return _keys_of_levels(spec.hierarchy, declared, columns) if declared else {}


def _keys_of_levels(
    names: Sequence[str], declared: Sequence[CategoryColumn], columns: Mapping[str, Column]
) -> dict[str, Key]:
    """Return the key of each level, with the area one level up that contains each value."""
    leaf = names[-1]
    leaves = np.arange(len(declared[-1].values or ()))
    keys: dict[str, Key] = {}
    for i in reversed(range(len(names))):
        key = key_of(names[i], declared[i])
        if isinstance(key, str):
            raise TypeError("a category can be a key")
        inside = np.zeros(key.size, np.int64)
        parents = Places(_positions(names[i], names[i - 1], columns)[0] if i else inside)
        if i < len(names) - 1:  # rows have no column of this level
            key = replace(key, nulls=None, others=None)
        ancestors = Places(leaves)
        keys[names[i]] = replace(key, level=i + 1, parents=parents, leaf=leaf, ancestors=ancestors)
        leaves = parents.numbers[leaves]
    return {name: keys[name] for name in names}


def _grouping_keys(
    spec: QuerySpec, columns: Mapping[str, Column], refuse: Refuse
) -> tuple[Key, ...]:
    """Return the declared groupings of the last level, each with the group of each of its areas."""
    leaf, keys = spec.hierarchy[-1], []
    used = {*spec.hierarchy, *(key for keys in spec.attribute_sets for key in keys)}
    for i, name in enumerate(spec.groupings):
        reason = None
        positions = _positions(leaf, name, columns) if name in columns else []
        if name in used or name in spec.groupings[:i]:
            reason = "it is a key of these tables already"
        elif not positions:
            reason = f"the values of '{leaf}' are not declared to lie within its values"
        elif any((one != positions[0]).any() for one in positions):
            reason = f"its areas contain '{leaf}' in two ways, which contradict each other"
        elif not {*spec.marginals_at.get(name, ())} <= {*spec.attributes_at(leaf)}:
            reason = f"its tables in `marginals_at` must be tables of '{leaf}', too"
        if reason is not None:
            where = ("consistent", "groupings", i)
            refuse("DP-CONSIST-013", *where, key="groupings", reason=f"'{name}': {reason}")
            continue
        key = key_of(name, columns[name])
        if isinstance(key, Key):
            ancestors = Places(positions[0])
            keys.append(replace(key, nulls=None, others=None, leaf=leaf, ancestors=ancestors))
    _refuse_many_groups([key for key in keys if key.column in spec.marginals_at], refuse)
    return tuple(keys)


def _refuse_many_groups(measured: Sequence[Key], refuse: Refuse) -> None:
    """Add an error if groupings with measured tables have too many groups to be computed."""
    groups = sum(key.size for key in measured)
    covariances = sum(key.size * len(key.ancestors) for key in measured)
    if groups > MOST_MEASURED_GROUPS or covariances > MOST_COVARIANCES:
        reason = (
            f"`marginals_at` measures tables of {groups:,} groups, at most "
            f"{MOST_MEASURED_GROUPS:,} are possible; groups times areas are {covariances:,}, at "
            f"most {MOST_COVARIANCES:,} are possible"
        )
        refuse("DP-CONSIST-013", "consistent", "groupings", key="groupings", reason=reason)


def outer_columns(name: str, columns: Mapping[str, Column]) -> list[str]:
    """Return the columns whose areas contain a column's areas, the nearest first.

    If a column lies within several others, only the first of them is followed.
    """
    found: list[str] = []
    column: Column | None = columns[name]
    while isinstance(column, CategoryColumn) and column.within:
        found.append(column.within[0])
        column = columns.get(column.within[0])
    return found


def _containing_columns(name: str, columns: Mapping[str, Column]) -> set[str]:
    """Return all columns whose areas contain a column's areas."""
    above = getattr(columns[name], "within", ())
    return {*above}.union(*(_containing_columns(one, columns) for one in above))


def _positions(name: str, above: str, columns: Mapping[str, Column]) -> list[NDArray[np.int64]]:
    """Return the position, among the values of `above`, of the area that contains each value.

    There is one result for each path of nested columns from `name` to `above`.
    """
    part, found = columns[name], []
    for between in getattr(part, "within", ()):
        higher = columns[between]
        if not isinstance(part, CategoryColumn) or not isinstance(higher, CategoryColumn):
            raise TypeError("areas are categories")
        at = {value: i for i, value in enumerate(higher.values or ())}
        areas = part.areas_in(between)
        lies = np.fromiter((at[area] for area in areas), np.int64, len(areas))
        paths = [np.arange(len(at))] if between == above else _positions(between, above, columns)
        found += [one[lies] for one in paths]
    return found


def _refuse_overlaps(
    spec: QuerySpec, attributes: Sequence[str], columns: Mapping[str, Column], refuse: Refuse
) -> None:
    """Add errors for keys that determine each other: areas of one tree, cuts of one number."""
    leaf = spec.hierarchy[-1] if spec.hierarchy and spec.hierarchy[-1] in columns else None
    lies = set() if leaf is None else _containing_columns(leaf, columns)
    seen: dict[str, str] = {}
    for name in attributes:
        if name not in columns:
            continue  # reported with the tables that have it as a key
        column = columns[name]
        within = _containing_columns(name, columns)
        other = seen.setdefault(column.cut if isinstance(column, CutColumn) else name, name)
        if other != name:
            reason = f"it and '{other}' are made of the same number"
        elif name in lies or leaf in within:
            reason = f"it and '{leaf}' are areas of one tree"
        elif within & {*attributes}:
            reason = f"it lies within '{min(within & {*attributes})}'"
        else:
            continue
        refuse("DP-CONSIST-002", *spec.key_path_of(name), column=name, reason=reason)
