"""Types shared by predicates, expressions and queries, without importing the SQL parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.schema.mistakes.suggestions import nearest
from dprelease.schema.table import Table


@dataclass(frozen=True, slots=True)
class Predicate:
    """A checked predicate: SQL over the typed columns of one table, and the columns it reads."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked expression: SQL over typed columns, the columns it reads, and its SQL type."""

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
    """Return a hint if a list over several lines lacks commas, which makes one text of it."""
    names = written.split()
    if len(names) < 2 or not all(name in table.columns for name in names):
        return ""
    return f"; a comma is missing after '{names[0]}'"
