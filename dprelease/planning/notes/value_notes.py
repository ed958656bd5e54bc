"""Declared values of which a line, or the spaces around them, may be taken for another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dprelease.errors.printable import amount
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn

HEADINGS = "Values of files: {}. The first line of each names the column, and is no value."
SPACES = "Spaces around values: {}. A stored code without them is another one."
"""What `check` says of them."""


def listed_below_headings(queries: Sequence[Query]) -> list[str]:
    """Return how many values files have whose column nobody named, each once.

    Without a line of names the first value would be taken for it, and its rows would be lost. That
    line is not shown: it would be a row, were this another file than was meant.
    """
    found: dict[str, None] = {}
    for name, column in _categories(queries):
        listed = column.values_from
        if listed is not None and listed.column is None:
            number = amount(len(column.values or ()), "value", "values")
            found[f"{name} has {number} from '{listed.file}'"] = None
    return list(found)


def with_spaces(queries: Sequence[Query]) -> list[str]:
    """Return how many values of columns begin or end with a space, each once."""
    found: dict[str, None] = {}
    for name, column in _categories(queries):
        number = sum(value != value.strip() for value in column.values or ())
        if number:
            found[f"{amount(number, 'value', 'values')} of {name}"] = None
    return list(found)


def _categories(queries: Sequence[Query]) -> Iterator[tuple[str, CategoryColumn]]:
    for query in queries:
        for name, column in query.table.columns.items():
            if isinstance(column, CategoryColumn):
                yield name, column
