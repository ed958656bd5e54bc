"""Refuse inputs that a query can't use, based on the metadata of the sources, before the charge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dprelease.errors import DataError
from dprelease.exact.inputs import Input
from dprelease.exact.nan_safety import columns_to_read
from dprelease.exact.reading.sources import place_of, stored_columns
from dprelease.query.resolve import Query
from dprelease.statements.layers import duplicate_keys_sql
from dprelease.statements.values.source_equality import (
    comparison_of,
    inexact_comparison_error,
    is_no_id,
)

MetadataQuery = Callable[[str, Input], list[Any]]
"""A function that runs a statement which reads no row about people, and returns its rows."""


def refuse_missing_columns(given: Input, names: Iterable[str]) -> None:
    """Raise DP-DATA-002 for a column that a source lacks."""
    for name in names:
        if name not in given.physical:
            place, table = place_of(given.declared, name), given.declared.table.name
            raise DataError("DP-DATA-002", place=place, table=table, column=name)


def refuse_unusable_columns(inputs: Sequence[Input], query: Query) -> None:
    """Raise for columns that a query can't use, based on the sources' metadata.

    Raises DataError: DP-DATA-002 for a column that a source lacks, 005 for ids that are floats, 026
    for ids and join keys that a source does not compare character by character. A source that has
    none of the declared columns is refused even if a query reads none: it is another file, or its
    header, delimiter or encoding is not as declared, so that its lines are not the table's rows.
    """
    unit, pairs = query.unit.id, () if query.join is None else query.join.on
    for i, (given, names) in enumerate(zip(inputs, columns_to_read(query), strict=False)):
        stored = [] if given.opened is None and not given.parts else stored_columns(given.declared)
        if given.physical.keys().isdisjoint(stored):
            names = (*names, *stored[:1])
        refuse_missing_columns(given, names)
        if unit in names and is_no_id(given.physical[unit]):
            raise DataError("DP-DATA-005", place=place_of(given.declared, unit), column=unit)
        keys = [pair[i] for pair in pairs]
        for name in names:
            kind = given.source_type.name
            comparison = comparison_of(kind, given.collations, name)
            if comparison and (name in keys or name == unit):
                use = "id" if name == unit else "join key"
                place = place_of(given.declared, name)
                raise inexact_comparison_error(kind, comparison, name, use, place)


def refuse_duplicate_keys(
    query: Query, joined: Input, unique: set[str], ask: MetadataQuery
) -> None:
    """Raise DP-DATA-012 if a joined public table has several rows with the same key.

    No row about people is read. The statement of the query also leaves such keys out, so no result
    depends on this check. `unique`: the statements that have found no duplicate so far.
    """
    statement = duplicate_keys_sql(query, joined.physical)
    if statement is None or query.join is None or statement in unique:
        return
    if ask(statement, joined):
        columns = ", ".join(right for _, right in query.join.on)
        table = joined.declared.table.name
        raise DataError("DP-DATA-012", table=table, columns=columns)
    unique.add(statement)
