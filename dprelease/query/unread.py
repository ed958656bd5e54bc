"""Find the tables that the engine of a release can't read, from declarations alone."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.errors import DataError
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE, SPARK
from dprelease.system.stores.address import WEB

IN_STORE = "in a store from which Spark reads only Parquet, or on a web server"


def spark_only_error(declared: Declared) -> DataError | None:
    """Return DP-SPARK-006 for a table whose source only Spark can read; None for any other."""
    source = declared.table.source
    if source is None or not source.is_only_for_spark or source.store is not None:
        return None
    kind = "a path with another scheme" if source.is_uri else source.type.label
    return DataError("DP-SPARK-006", table=declared.table.name, format=kind)


def unsupported_by_spark_error(declared: Declared) -> DataError | None:
    """Return DP-SPARK-001 for a source that Spark does not read; None for any other.

    DP-SPARK-005 for a table whose persons are looked up, also if a frame replaces its source.
    """
    source = declared.table.source
    if declared.table.lookup is not None:
        problem = f"'{declared.table.name}' declares a `lookup` of its persons"
        return DataError("DP-SPARK-005", problem=problem)
    if source is None or source.kind is None:
        return None
    if source.store is not None and not (source.type.has_uris and source.store.scheme != WEB):
        return DataError("DP-SPARK-001", table=declared.table.name, format=IN_STORE)
    if declared.table.parts:
        form = "a source with `files`, `constants`, `codes`, `marks_of` or other names of columns"
        return DataError("DP-SPARK-001", table=declared.table.name, format=form)
    if source.type.is_read_by_spark:
        return None
    return DataError("DP-SPARK-001", table=declared.table.name, format=source.type.label)


def unreadable_table_errors(declaration: Declaration, queries: Sequence[Query]) -> list[DataError]:
    """Return an error for each table that queries read, but that the declared engine can't read.

    Such a release can still run if the caller passes data frames for these tables.
    """
    engine = declaration.spec.engine
    tables = {query.declared.table.name: query.declared for query in queries}
    # On Spark, the driver reads public tables with DuckDB, and sends them to the tasks.
    joins = [
        query.join.declared
        for query in queries
        if query.join is not None and (engine == DEFAULT_ENGINE or query.join.by_unit)
    ]
    tables |= {declared.table.name: declared for declared in joins}
    refusals: list[DataError | None] = []
    if engine == DEFAULT_ENGINE:
        refusals = [spark_only_error(declared) for declared in tables.values()]
    elif engine == SPARK:
        refusals = [unsupported_by_spark_error(one) for one in tables.values()]
    return [refusal for refusal in refusals if refusal is not None]
