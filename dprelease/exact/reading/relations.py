"""Read frames whose rows arrive in batches; this module opens DuckDB relations."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import duckdb

from dprelease.exact.reading.frames import refuse_ambiguous_names
from dprelease.exact.reading.sources import stored_columns
from dprelease.exact.reading.streams import (
    FrameBatches,
    columns_as_declared,
    stream_batches,
    unusable_frame_error,
)
from dprelease.exact.results.vectors import LARGE_BATCH_ROWS
from dprelease.schema.load import Declared
from dprelease.schema.source_types.equality import OTHER
from dprelease.statements.values.source_equality import engine_collations
from dprelease.system.signal_propagation import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa


def frame_batches(frame: object, declared: Declared) -> FrameBatches | None:
    """Return the declared columns of a frame whose rows arrive in batches; None for other frames.

    Raises DataError: the errors of `relation_batches` and `stream_batches`; no row is read.
    """
    if is_relation(frame):
        return relation_batches(frame, declared)
    return stream_batches(frame, declared)


def is_relation(frame: object) -> bool:
    """Return whether a frame is a relation of some DuckDB connection."""
    return isinstance(frame, duckdb.DuckDBPyRelation)


def relation_batches(frame: object, declared: Declared) -> FrameBatches:
    """Return the declared columns that a relation has, without reading its rows.

    The caller's connection runs nothing but the caller's relation: first without rows, to find its
    types and how it compares texts, and then once for its rows. No table and no setting is created.

    Raises DataError: DP-DATA-003 for names that differ only in case, DP-DATA-004 for a type that
    can't be read as declared, DP-DATA-027 if the relation can't be run.
    """

    if not isinstance(frame, duckdb.DuckDBPyRelation):
        raise TypeError("not a relation")
    empty: pa.Table | None = None
    names: list[str] = []
    collations: dict[str, str] = {}
    with reraise_handler_errors():
        try:
            names = list(frame.columns)  # Arrow has other names for those that differ in case
            empty = frame.limit(0).to_arrow_table()
            collations = _collations(frame, stored_columns(declared))
        except (duckdb.Error, MemoryError, OSError, ValueError):
            empty = None
    if empty is None:
        raise unusable_frame_error(frame, declared)
    refuse_ambiguous_names(names, declared)
    wanted = tuple(name for name in stored_columns(declared) if name in names)
    schema = columns_as_declared(empty, wanted, declared).schema
    relation = frame
    return FrameBatches(
        declared, wanted, schema, lambda: relation.to_arrow_reader(LARGE_BATCH_ROWS), collations
    )


DEFAULT_COLLATION_SQL = "count(*), current_setting('default_collation')"


def _collations(frame: duckdb.DuckDBPyRelation, stored: Collection[str]) -> dict[str, str]:
    """Return the collations by which the caller's connection compares text columns, by column."""
    kinds = zip(frame.columns, frame.types, strict=True)
    texts = [name for name, kind in kinds if name in stored and str(kind) in ("VARCHAR", "JSON")]
    if not texts:
        return {}

    def binds(expression: str) -> bool:
        """Return whether DuckDB accepts this expression on the relation."""
        try:
            frame.project(expression)
        except duckdb.Error:
            return False
        return True

    found = engine_collations(texts, binds)
    ((_, default),) = frame.limit(0).aggregate(DEFAULT_COLLATION_SQL).fetchall()
    return found if not default else dict.fromkeys(texts, OTHER) | found
