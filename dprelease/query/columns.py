"""What predicates and queries share, without the SQL parser that only predicates need."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from dprelease.schema.table import Table


@dataclass(frozen=True, slots=True)
class Predicate:
    """A checked predicate: SQL over the typed columns of one table, and the columns it reads."""

    sql: str
    columns: tuple[str, ...]


def unknown_column(table: Table, column: str) -> dict[str, Any]:
    """Return the fields of an unknown-column message."""
    close = get_close_matches(column, table.columns, n=1)
    return {
        "table": table.name,
        "column": column,
        "nearest": f"; did you mean '{close[0]}'" if close else "",
        "known": ", ".join(table.columns),
    }
