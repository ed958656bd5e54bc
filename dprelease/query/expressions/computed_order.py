"""Computed columns: the columns that each expression reads, and the order of computation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dprelease.errors import DpReleaseError, Place, QueryError
from dprelease.query.expressions.used_columns import Formula, Formulas
from dprelease.schema.columns import Column, CutColumn, expression_of
from dprelease.schema.table import Table

LONGEST_PATH = 12
"""Maximum number of columns that a message lists of a chain of computed columns."""

DEEPEST = 20
"""Maximum length of a chain of computed columns: each adds a SELECT around another SELECT."""

Placer = Callable[..., Place]


def formulas_of(
    table: Table, names: Iterable[str], place: Placer, errors: list[DpReleaseError]
) -> dict[str, Formula]:
    """Return the checked expressions of some columns, and add their problems to `errors`."""
    formulas: dict[str, Formula] = {}
    for name in names:
        text = expression_of(table.columns[name])
        if text is None:
            continue
        try:
            formulas[name] = _formula(table, name, text, place(name, "expression"))
        except QueryError as error:
            errors.append(error)
    return formulas


def _formula(table: Table, name: str, text: str, place: Place) -> Formula:
    """Return the checked expression of a computed column."""
    from dprelease.query.expressions.predicate import (
        parse_expression,  # the SQL parser is slow to import
    )
    from dprelease.query.expressions.scalar import READ_FROM

    formula, kind = parse_expression(text, table, place)
    declared = getattr(table.columns[name], "type", "cut")
    problem = None
    if not formula.columns:
        problem = "it reads no column"
    elif kind not in READ_FROM[declared]:
        problem = f"its expression gives {kind}, which can't be read as {declared}"
    if problem is not None:
        raise QueryError("DP-DERIVE-003", place=place, column=name, problem=problem)
    return formula


def check_order(
    columns: Mapping[str, Column], formulas: Formulas, place: Placer, errors: list[DpReleaseError]
) -> None:
    """Add an error for each column that depends on itself, or on too long a chain of columns."""
    computed = [*formulas, *(n for n, c in columns.items() if isinstance(c, CutColumn))]
    levels = computation_levels(columns, formulas, computed)
    done = {name for level in levels for name in level}
    for name in computed:
        if name in done:
            continue
        path = _cycle_through(columns, formulas, name)
        if path:
            done.update(path if len(path) > LONGEST_PATH else ())  # report each chain only once
            cycle = " <- ".join(path if len(path) <= LONGEST_PATH else (*path[:3], "...", name))
            errors.append(QueryError("DP-DERIVE-002", place=place(name), column=name, path=cycle))
    if len(levels) > DEEPEST:
        name = levels[DEEPEST][0]
        problem = f"it is the last of a chain of more than {DEEPEST} computed columns"
        fields: dict[str, Any] = {"column": name, "problem": problem}
        errors.append(QueryError("DP-DERIVE-003", place=place(name), **fields))


def computation_levels(
    columns: Mapping[str, Column], formulas: Formulas, names: Iterable[str]
) -> list[list[str]]:
    """Return the computed columns that `names` depend on, in levels that read earlier levels only.

    Columns that depend on themselves are in no level.
    """
    todo = [
        name
        for name in with_input_columns(columns, formulas, names)
        if input_columns(columns, formulas, name)
    ]
    place = {name: i for i, name in enumerate(todo)}
    waits: dict[str, int] = {}
    readers: dict[str, list[str]] = {}
    for name in todo:
        computed = {part for part in input_columns(columns, formulas, name) if part in place}
        waits[name] = len(computed)
        for part in computed:
            readers.setdefault(part, []).append(name)
    levels: list[list[str]] = []
    level = [name for name in todo if not waits[name]]
    while level:
        levels.append(level)
        later = [name for part in level for name in readers.get(part, ())]
        for name in later:
            waits[name] -= 1
        level = sorted({name for name in later if not waits[name]}, key=place.__getitem__)
    return levels


def with_input_columns(
    columns: Mapping[str, Column], formulas: Formulas, names: Iterable[str]
) -> tuple[str, ...]:
    """Return `names` and all columns from which they are computed, in the table's order."""
    reached: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += input_columns(columns, formulas, name)
    return tuple(name for name in columns if name in reached)


def input_columns(columns: Mapping[str, Column], formulas: Formulas, name: str) -> tuple[str, ...]:
    """Return the columns that a cut or an expression reads; empty for any other column."""
    column = columns[name]
    if isinstance(column, CutColumn):
        return (column.cut,)
    return formulas[name].columns if name in formulas else ()


def _cycle_through(
    columns: Mapping[str, Column], formulas: Formulas, start: str
) -> tuple[str, ...] | None:
    """Return a shortest chain from a column back to itself; None if there is none."""
    before: dict[str, str] = {}
    todo = deque([start])
    while todo:
        last = todo.popleft()
        for name in input_columns(columns, formulas, last):
            if name == start:
                path = [name, last]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return tuple(reversed(path))
            if name not in before:
                before[name] = last
                todo.append(name)
    return None
