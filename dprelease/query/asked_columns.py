"""What a declared column asks for, by the word that it asks with.

Every file of `query/aggregates` and `query/forms` may declare `ASKED`, words and what they become.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from dprelease.query import aggregates, forms
from dprelease.query.asking import Asked, Asking, Wanted
from dprelease.query.used_columns import unknown_column
from dprelease.schema.asked import ColumnSpec
from dprelease.schema.asked_words import WORDS

Way = Callable[[Asking, Wanted], Asked | None]


@cache
def ways() -> dict[str, Way]:
    """Return how each word becomes measurements, from all files that declare any."""
    found: dict[str, Way] = {}
    for folder in (aggregates, forms):
        for file in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"{folder.__name__}.{file.name}")
            found |= getattr(module, "ASKED", {})
    return found


def asked(asking: Asking, name: str, spec: ColumnSpec) -> Asked | None:
    """Return how a column is computed, and from which aggregates; None for a finding."""
    wanted = Wanted.of(name, spec)
    if not (wanted.column == "*" and WORDS[wanted.kind].of_rows):
        for column in wanted.columns:
            if column not in asking.table.columns:
                unknown = unknown_column(asking.table, column)
                asking.refuse("DP-QUERY-001", "columns", name, wanted.kind, **unknown)
                return None
    return ways()[wanted.kind](asking, wanted)
