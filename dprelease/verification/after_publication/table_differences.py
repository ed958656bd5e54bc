"""How the declarations of two tables differ: reasons against a comparison, and notes on it.

Two numbers can be subtracted if they measure the same: same computed values, same keys, same groups
for contribution limits. Other differences, such as other conditions, are listed with the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dprelease.documents.metadata import ColumnMetadata
from dprelease.errors.printable import count_text
from dprelease.query.expressions.used_columns import Formula
from dprelease.query.grouping.group_keys import Key
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, CutColumn

MOST_VALUES = 5
"""Maximum number of values of a key that one sentence lists."""

Keys = Sequence[ColumnMetadata]
"""The keys of a table, which may differ from those that its query had before selecting keys."""


def reasons_against(old: Query, new: Query, keys: tuple[Keys, Keys]) -> Iterator[str]:
    """Yield the reasons why values of two queries with the same keys can't be compared.

    `keys`: the published keys of both tables, which have the same names.
    """
    if old.unit != new.unit:
        yield (
            "their ids or contribution limits differ, so that a change of the limits would look "
            "like a change of the numbers"
        )
    ids = [
        None if query.unit.id is None else _meaning(query, query.unit.id) for query in (old, new)
    ]
    if ids[0] != ids[1]:
        yield f"the id '{old.unit.id}' is computed in another way"
    if old.unit.id is not None and _groups(old) != _groups(new):
        names = [", ".join(sorted(_groups(query))) or "all rows" for query in (old, new)]
        yield f"the contribution limits apply to groups by {names[0]}, and by {names[1]}"
    if _join(old) != _join(new):
        yield "they join other tables, or in another way"
    for one, other in zip(*keys, strict=True):
        if one.kind != other.kind:
            yield f"the key '{one.name}' is of the type {one.kind}, and of the type {other.kind}"
        if _meaning(old, one.name) != _meaning(new, one.name):
            yield f"the key '{one.name}' is computed in another way, or replaces values by others"
        if _areas_moved(old, new, one.name):
            yield f"areas of the key '{one.name}' contain other areas than before"


def measures_the_same(old: Query, new: Query, columns: tuple[OutputColumn, OutputColumn]) -> bool:
    """Return whether two published columns are computed in the same way, apart from their noise."""
    first, second = (
        (
            column.form,
            column.unit,
            column.at,
            [part.aggregate for part in column.parts],
            [_meaning(query, name) for part in column.parts for name in part.aggregate.reads],
        )
        for query, column in zip((old, new), columns, strict=True)
    )
    return first == second


def differences_of_rows(old: Query, new: Query, keys: tuple[Keys, Keys]) -> Iterator[str]:
    """Yield sentences on differences that change which rows count, or what keys mean."""
    if old.declared.table.name != new.declared.table.name:
        names = [query.declared.table.name for query in (old, new)]
        yield f"The old table is about rows of '{names[0]}', and the new table of '{names[1]}'."
    joined = [query.join.declared.table.name for query in (old, new) if query.join is not None]
    if len(set(joined)) > 1:
        yield f"The old table joins '{joined[0]}', and the new table '{joined[1]}'."
    if old.unit.id is None and _groups(old) != _groups(new):
        names = [", ".join(sorted(_groups(query))) or "no key" for query in (old, new)]
        yield (
            f"Rows need declared values of {names[0]} in the old table, and of {names[1]} in the "
            "new table."
        )
    for name in _condition_columns(old) & _condition_columns(new):
        if _meaning(old, name) != _meaning(new, name):
            yield f"The condition reads '{name}', which is computed in another way."
    read = {name: None for query in (old, new) for name in sorted(_all_columns(query))}
    for name in read:
        codes = [getattr(_column(query, name), "missing", ()) for query in (old, new)]
        both = all(_column(query, name) is not None for query in (old, new))
        if both and codes[0] != codes[1]:
            yield f"Other values of '{name}' are declared as missing."
    yield from _differences_of_keys(old, new)
    for one, other in zip(*keys, strict=True):
        yield from _other_labels(one, other)


def _column(query: Query, name: str) -> Column | None:
    """Return the declared column of a query's table; None if it has no such column."""
    return query.table.columns.get(name)


def _formula(query: Query, name: str) -> Formula | None:
    """Return the expression of a computed column, also of the joined table."""
    joined = {} if query.join is None else query.join.formulas
    return query.formulas.get(name) or joined.get(name)


def _inputs(query: Query, name: str) -> tuple[str, ...]:
    """Return the columns from which a column is computed."""
    column, formula = _column(query, name), _formula(query, name)
    if isinstance(column, CutColumn):
        return (column.cut,)
    return () if formula is None else formula.columns


def _meaning(query: Query, name: str) -> tuple[Any, ...]:
    """Return how the values of a column are computed, from the stored columns on."""
    column, formula = _column(query, name), _formula(query, name)
    own: tuple[Any, ...] = (
        None if formula is None else formula.sql,
        getattr(column, "fill", None),
        getattr(column, "others", None),
    )
    if isinstance(column, CutColumn):
        own = (*own, column.edges, column.closed, column.intervals)
    return (name, own, *(_meaning(query, part) for part in _inputs(query, name)))


def _groups(query: Query) -> frozenset[str]:
    """Return the keys of the groups to which contribution limits apply."""
    if query.private is not None:
        return frozenset(name for name, _ in query.private.columns)
    space = query.keys if query.finest is None else query.finest
    return frozenset(key.column for key in space.keys)


def _join(query: Query) -> tuple[Any, ...] | None:
    """Return how the rows are joined; None without a join."""
    join = query.join
    if join is None:
        return None
    left = [_meaning(query, name) for name, _ in join.on]
    return (join.on, join.by_unit, join.matched_only, left)


def _areas_moved(old: Query, new: Query, name: str) -> bool:
    """Return whether an area of a level has lost or gained an area of the finest level."""
    import pandas as pd

    series = []
    for query in (old, new):
        level = next((key for key in query.keys.keys if key.column == name), None)
        if level is None or query.finest is None or level.read_from == level.column:
            return False
        leaf = query.finest.keys[0]
        areas = pd.Series([*level.texts]).to_numpy()[level.ancestors.numbers]
        series.append(pd.Series(areas, index=[*leaf.texts]))
    common = series[0].index.intersection(series[1].index)
    return bool((series[0][common] != series[1][common]).any())


def _condition_columns(query: Query) -> set[str]:
    return set() if query.predicate is None else set(query.predicate.columns)


def _all_columns(query: Query) -> set[str]:
    """Return all columns on which the numbers of a query depend."""
    reads = [name for one in query.measurements for name in one.aggregate.reads]
    left, found = {*_groups(query), *_condition_columns(query), *reads}, set[str]()
    while left:
        name = left.pop()
        found.add(name)
        left |= {*_inputs(query, name)} - found
    return found


def _differences_of_keys(old: Query, new: Query) -> Iterator[str]:
    """Yield a sentence on each key of the groups that has other declared values."""
    known = [_declared_keys(query) for query in (old, new)]
    for name in known[0]:
        if name not in known[1]:
            continue
        first, second = (known[i][name].texts for i in (0, 1))
        only = [[x for x in first if x not in second], [x for x in second if x not in first]]
        parts = [
            f"only the {side} table has {_list_text(values)}"
            for side, values in zip(("old", "new"), only, strict=True)
            if values
        ]
        if parts:
            yield f"The declared values of '{name}' differ: {' and '.join(parts)}."


def _declared_keys(query: Query) -> dict[str, Key]:
    """Return the keys of the groups with declared values, by name."""
    if query.private is not None:
        return {}
    keys = (*query.keys.keys, *(() if query.finest is None else query.finest.keys))
    return {key.column: key for key in keys}


def _list_text(values: Sequence[str]) -> str:
    """Return the first values of a list as text."""
    rest = len(values) - MOST_VALUES
    named = ", ".join(f"'{value}'" for value in values[:MOST_VALUES])
    return named + (f" and {count_text(rest, 'more value', 'more values')}" if rest > 0 else "")


def _other_labels(old: ColumnMetadata, new: ColumnMetadata) -> Iterator[str]:
    """Yield a sentence on the first value of a key whose label differs in a language of both."""
    if old.codes is None or new.codes is None:
        return
    for value, texts in old.codes.labels.items():
        for language, text in texts.items():
            other = new.codes.labels.get(value, {}).get(language, text)
            if other != text:
                yield (
                    f"Labels of '{old.name}' differ: the value '{value}' is '{text}' in the old "
                    f"table, and '{other}' in the new table."
                )
                return
