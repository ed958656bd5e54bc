"""Nested areas: columns whose values are areas within the areas of another column.

The area of each value is public, like the values: a file or the schema declares the area, never the
data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn, TypeVar

from pydantic_core import PydanticCustomError

from dprelease.schema.field_types import as_list, refuse, to_text
from dprelease.schema.model import shorten
from dprelease.schema.public_values.key_files import Columns, KeyValues
from dprelease.schema.public_values.unallocated import unallocated_part
from dprelease.schema.public_values.value_labels import all_differ

if TYPE_CHECKING:
    from dprelease.schema.columns import CategoryColumn

ColumnT = TypeVar("ColumnT")

OF_ONE_QUERY = "a column of a single query can't be a level of the hierarchy"


def refuse_nesting(column: str, above: str, reason: str) -> NoReturn:
    """Raise DP-SCHEMA-016 for a column that can't lie within another column."""
    refuse("DP-SCHEMA-016", column=column, above=shorten(above), reason=reason)


def higher_columns(raw: Mapping[str, object]) -> list[str]:
    """Return the columns within which a declared category lies; none if they are no list."""
    names = as_list(raw.get("within", ()))
    if not isinstance(names, list | tuple):
        return []
    found = [to_text(name) for name in names]
    if not all_differ(found):
        refuse("DP-DECL-003", problem="a column is listed twice", key="within")
    return found


def parts_of_areas(values: object, within: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return all values, and for each value its area in the column of `within`.

    `values` is a mapping from areas to lists of values, or to mappings from values to labels.
    """
    if len(within) > 1:
        reason = "areas in several columns need `values_from`, a file with one column for each"
        refuse_nesting("this column", within[1], reason)
    if not isinstance(values, Mapping):
        refuse_nesting("this column", within[0], "its values are not assigned to areas")
    found: list[str] = []
    lies: list[str] = []
    for area, parts in values.items():
        if not isinstance(parts, list | tuple | Mapping):
            refuse(
                "DP-DECL-003", problem="it must have a list of values for each area", key="values"
            )
        found += [_value_of_area(part, str(area), i) for i, part in enumerate(parts)]
        lies += [to_text(area)] * len(parts)
    return found, lies


def _value_of_area(value: object, area: str, i: int) -> str:
    """Return a value of an area; an error is reported at the value's position in the list."""
    try:
        return to_text(value)
    except PydanticCustomError as problem:
        refuse(problem.type, **{**(problem.context or {}), "spot": ("values", area, i)})


def refuse_repeated_values(
    values: Sequence[str], areas: Sequence[str], *, of_file: bool = False
) -> None:
    """Raise DP-SCHEMA-017 for a value that lies in two areas; of a file, with both rows."""
    if all_differ(values):
        return
    first: dict[str, int] = {}
    for i, (value, area) in enumerate(zip(values, areas, strict=True)):
        known = first.setdefault(value, i)
        if areas[known] != area:
            where = f", in rows {known + 1:,} and {i + 1:,} below the header" if of_file else ""
            fields = {"value": shorten(value), "one": shorten(areas[known]), "where": where}
            refuse("DP-SCHEMA-017", column="this column", other=shorten(area), **fields)


def without_repeated_rows(listed: Columns) -> Columns:
    """Return the values of a file with their areas and labels, each row once.

    A file with a row for each municipality repeats the row of its district. Rows of a value with
    different labels all stay, and are refused as duplicates.
    """
    if all_differ(listed[0]):
        return listed
    rows = dict.fromkeys(zip(*listed, strict=True))
    values, *others = zip(*rows, strict=True)
    return [KeyValues(values) if isinstance(listed[0], KeyValues) else list(values), *others]


def nested_columns(columns: Mapping[str, ColumnT]) -> Iterator[tuple[str, CategoryColumn]]:
    """Yield the nested columns, with their values sorted by the areas that contain them.

    Then the parts of an area are adjacent, in declared order. Higher levels are sorted first.

    Raises PydanticCustomError: DP-SCHEMA-016, 018 and 019 for columns whose values don't lie in
    areas of the other column.
    """
    from dprelease.schema.columns import CategoryColumn  # it imports this module

    inner = {
        name: column
        for name, column in columns.items()
        if isinstance(column, CategoryColumn) and column.within
    }
    for name, column in inner.items():
        for above in column.within:
            if above not in columns:
                refuse_nesting(name, above, "there is no such column")
    higher: dict[str, ColumnT | CategoryColumn] = dict(columns)
    for name in _higher_levels_first(inner):
        sorted_column = higher[name] = _sorted_by_area(name, inner[name], higher)
        yield name, sorted_column


def _higher_levels_first(inner: Mapping[str, CategoryColumn]) -> list[str]:
    """Return the names of nested columns, each after the columns within which it lies."""
    # A level is sorted by the positions of the areas above it, which must have their final order.
    order = TopologicalSorter({name: column.within for name, column in inner.items()})
    try:
        return [name for name in order.static_order() if name in inner]
    except CycleError as problem:
        above, name = problem.args[1][:2]
        refuse_nesting(name, above, "they would be nested within themselves")


def _sorted_by_area(
    name: str, column: CategoryColumn, columns: Mapping[str, object]
) -> CategoryColumn:
    """Return a column with its values in the order of their areas in the first of `within`.

    If the columns have unallocated values, each of these areas has one more part, its last.
    """
    above = [_category(name, one, columns[one]) for one in column.within]
    positions = [
        _area_positions(name, column, *one) for one in zip(column.within, above, strict=True)
    ]
    if column.has_unallocated:
        areas = {area: above[0].value_labels.get(area) for area in positions[0]}
        column = column.with_unallocated([unallocated_part(area) for area in areas], areas)
    values, lies = column.values or (), [column.areas_in(one) for one in column.within]
    area_positions = [positions[0][area] for area in lies[0]]
    # Most files are sorted already.
    if all(one <= other for one, other in pairwise(area_positions)):
        return column.with_areas(values, lies)
    order = sorted(range(len(values)), key=area_positions.__getitem__)
    return column.with_areas([values[i] for i in order], [[of[i] for i in order] for of in lies])


def _category(name: str, above: str, higher: object) -> CategoryColumn:
    """Return the column within which a column lies; refuse a column of another type."""
    from dprelease.schema.columns import CategoryColumn  # it imports this module

    if not isinstance(higher, CategoryColumn):
        refuse_nesting(name, above, "that is not a category")
    return higher


def _area_positions(
    name: str, column: CategoryColumn, above: str, higher: CategoryColumn
) -> dict[str, int]:
    """Return the position of each area of the column `above`; refuse areas that do not fit."""
    if column.has_unallocated != higher.has_unallocated:
        refuse_nesting(name, above, "only one of them declares `unallocated`; declare it in both")
    position = {area: i for i, area in enumerate(higher.values or ())}
    for value, area in zip(column.values or (), column.areas_in(above), strict=True):
        if area not in position:
            assigned = (
                f"to '{shorten(area)}', which is not a value of '{above}'" if area else "to no area"
            )
            refuse("DP-SCHEMA-018", column=name, value=shorten(value), assigned=assigned)
    empty = {*higher.allocated_values} - {*column.areas_in(above)}
    if empty:
        area = shorten(min(empty, key=position.__getitem__))
        refuse("DP-SCHEMA-019", column=name, area=area, above=above)
    return position
