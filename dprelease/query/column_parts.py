"""What a declared column asks for, by the word that it asks with.

Any file of `query/aggregates` and `query/forms` may declare `BY_WORD`: words and what they become.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from dprelease.query import aggregates, forms
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.schema.asked_columns import ColumnSpec
from dprelease.schema.column_words import WORDS

Way = Callable[[DeclaredColumns, DeclaredColumn], ColumnParts | None]


@cache
def ways() -> dict[str, Way]:
    """Return how each word becomes measurements, from all files that declare any."""
    by_word: dict[str, Way] = {}
    for folder in (aggregates, forms):
        for file in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"{folder.__name__}.{file.name}")
            by_word |= getattr(module, "BY_WORD", {})
    return by_word


def parts_of(columns: DeclaredColumns, name: str, spec: ColumnSpec) -> ColumnParts | None:
    """Return how a column is computed, and from which aggregates; None for a finding."""
    declared = DeclaredColumn.of(name, spec)
    if not (declared.column == "*" and WORDS[declared.kind].of_rows):
        for column in declared.columns:
            if column not in columns.table.columns:
                unknown = unknown_column(columns.table, column)
                columns.refuse("DP-QUERY-001", "columns", name, declared.kind, **unknown)
                return None
    return ways()[declared.kind](columns, declared)
