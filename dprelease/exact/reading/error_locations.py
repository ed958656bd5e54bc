"""Add the position in the schema to errors about sources: the line of a column, or of the source.

Code that checks types knows only the name of a column, because it also checks views and frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from dprelease.errors import DataError, Place
from dprelease.schema.load import Declared
from dprelease.statements.meanings import typed_value_sql


class EngineTable(Protocol):
    """A table of an engine: its declaration, and the engine's types of its columns."""

    declared: Declared
    physical: dict[str, str]


@contextmanager
def locate_errors(tables: Sequence[EngineTable], *, is_read: bool = True) -> Iterator[None]:
    """Add the position in the schema to an error about these tables that has no position yet.

    `is_read`: True if the sources of the tables are read; False if frames are read instead.
    """
    try:
        yield
    except DataError as error:
        place = _error_place(error, tables, is_read) if error.place == Place() else None
        if place is not None:
            error.set_place(place)
        raise


def place_of(declared: Declared, column: str) -> Place:
    """Return the position of a column in the schema of its table."""
    return declared.document.place("columns", column)


def _error_place(error: DataError, tables: Sequence[EngineTable], is_read: bool) -> Place | None:
    """Return the position of the declaration that an error is about; None if it is not known."""
    name = error.column
    if name is None:
        alone = tables[0].declared if len(tables) == 1 and is_read else None
        return None if alone is None else alone.document.place("source")
    tables_with_column = [
        table.declared for table in tables if name in table.declared.table.columns
    ]
    mistyped_tables = [table.declared for table in tables if _is_mistyped(table, name)]
    return next(
        (place_of(declared, name) for declared in (*mistyped_tables, *tables_with_column)), None
    )


def _is_mistyped(asked: EngineTable, name: str) -> bool:
    """Return whether a table stores a column of this name with a type that can't be used.

    If both tables of a join have such a column, this shows which table the error is about.
    """
    table = asked.declared.table
    if name not in table.columns or name not in asked.physical:
        return False
    try:
        typed_value_sql(name, table.columns[name], asked.physical[name], table.time_zone)
    except DataError:
        return True
    return False
