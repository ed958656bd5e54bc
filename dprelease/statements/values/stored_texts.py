"""Find the categories whose stored texts are compared directly with the declared values."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.query import quoting
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn
from dprelease.statements.layers import grouping_columns
from dprelease.statements.values.categories import category_sql
from dprelease.statements.values.physical import base_type


def found_as_texts(query: Query, physical: Mapping[str, str]) -> frozenset[str]:
    """Return the keys whose stored texts are compared directly, and that nothing else reads.

    Empty texts need no special treatment if missing values are not replaced: an empty text is then
    an undeclared text like any other.
    """
    keys = {key.column: key for key in (query.finest or query.keys).keys}
    return frozenset(
        name
        for name in grouping_columns(query)
        if base_type(physical[name]) == "VARCHAR"
        and keys[name].nulls is None
        and keys[name].others is None
        and _are_plain(name, query)
    )


def _are_plain(name: str, query: Query) -> bool:
    """Return whether every stored text, unless it is empty, means the declared value it equals."""
    column, source = query.table.columns[name], quoting.identifier(name)
    if not isinstance(column, CategoryColumn) or column.signs:
        return False
    return category_sql(source, "VARCHAR", column.allocated_values) in (
        source,
        f"nullif({source}, '')",
    )
