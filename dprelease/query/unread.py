"""Which tables the engine of a release can't read, told by declarations alone."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.errors import DataError
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.release_parts.engine_names import DEFAULT_ENGINE


def beyond(declared: Declared) -> DataError | None:
    """Return DP-SPARK-006 for a table whose source Spark alone can read; None for any other."""
    source = declared.table.source
    if source is None or not source.is_sparks:
        return None
    kind = "a path with a scheme" if source.is_uri else "a table of Spark's catalogue"
    return DataError("DP-SPARK-006", table=declared.table.name, format=kind)


def unread(declaration: Declaration, queries: Sequence[Query]) -> list[DataError]:
    """Return the refusals of tables that queries read, and the declared engine can't.

    A run may be given frames in their place.
    """
    if declaration.spec.engine != DEFAULT_ENGINE:
        return []
    tables = {query.declared.table.name: query.declared for query in queries}
    joins = [query.join.declared for query in queries if query.join is not None]
    tables |= {declared.table.name: declared for declared in joins}
    return [refusal for declared in tables.values() if (refusal := beyond(declared)) is not None]
