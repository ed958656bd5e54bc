"""Types shared by predicates, expressions and queries, without importing the SQL parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.errors.suggestions import nearest
from dprelease.schema.table import Table


@dataclass(frozen=True, slots=True)
class Predicate:
    """A checked predicate: SQL over a table's typed columns, and the columns that it reads."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked expression: SQL over typed columns, the columns that it reads, and its type."""

    sql: str
    columns: tuple[str, ...]
    physical: str


Formulas = Mapping[str, Formula]
"""The expressions of computed columns, by name."""


def unknown_column(table: Table, column: str) -> dict[str, Any]:
    """Return the fields of an unknown-column message."""
    return {
        "table": table.name,
        "column": column,
        "nearest": _without_comma(column, table) or nearest(column, table.columns),
        "known": ", ".join(table.columns),
    }


def _without_comma(written: str, table: Table) -> str:
    """Return a hint if commas are missing between lines of a list, which YAML reads as one text."""
    names = written.split()
    if len(names) < 2 or not all(name in table.columns for name in names):
        return ""
    return f"; a comma is missing after '{names[0]}'"
