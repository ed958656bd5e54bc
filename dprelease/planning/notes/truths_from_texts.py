"""Which truth values a release reads from texts: all but a few words are missing, in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dprelease.query.resolve import Query
from dprelease.schema.columns import BooleanColumn
from dprelease.schema.load import Declared
from dprelease.statements.layers import needed_columns, needed_joined

OF_TEXTS = ("csv", "sqlite", "excel")
"""Formats of sources that store truth values as texts, or may."""

TRUTHS_FROM_TEXTS = (
    "Read from texts: {}. Only true, t, 1, false, f and 0 are truth values there; any other text, "
    "such as Yes, is missing, and becomes what `nulls` says. Declare a category for such texts; "
    "`dprelease profile` counts them."
)
"""What `check` says of them."""


def truths_from_texts(queries: Sequence[Query]) -> list[str]:
    """Return the columns of truth values that queries use and sources have as texts, each once.

    By the declaration alone: whether a text says anything else, as Yes or ja, only `profile` sees.
    """
    found: dict[str, None] = {}
    for query in queries:
        tables = [(query.declared, needed_columns(query))]
        if query.join is not None:
            tables.append((query.join.declared, needed_joined(query)))
        for declared, names in tables:
            found |= dict.fromkeys(_in_texts(declared, names))
    return list(found)


def _in_texts(declared: Declared, names: Sequence[str]) -> Iterator[str]:
    source = declared.table.source
    if source is None or source.kind not in OF_TEXTS:
        return
    for name in names:
        if isinstance(declared.table.columns[name], BooleanColumn):
            yield f"{declared.table.name}.{name}"
