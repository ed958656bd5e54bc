"""Read DuckDB relations that a caller passes as frames: rows are fetched only once, in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import DataError
from dprelease.exact.reading.frames import read_as_declared
from dprelease.exact.reading.sources import source_fields, stored_columns
from dprelease.exact.results.vectors import LARGE_BATCH_ROWS
from dprelease.schema.load import Declared
from dprelease.schema.source_types.equality import OTHER
from dprelease.statements.values.source_equality import engine_collations
from dprelease.system.signal_propagation import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa


def is_relation(frame: object) -> bool:
    """Return whether a frame is a relation of some DuckDB connection."""
    return isinstance(frame, duckdb.DuckDBPyRelation)


@dataclass(frozen=True)
class RelationBatches:
    """The declared columns that a relation has; their rows are read on request.

    The caller's connection runs nothing but the caller's relation: first without rows, to find its
    types and how it compares texts, and then once for its rows. No table and no setting is created.
    `collations`: see `engine_collations`.
    """

    declared: Declared
    frame: duckdb.DuckDBPyRelation
    wanted: tuple[str, ...]
    schema: pa.Schema
    collations: dict[str, str]

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; the relation runs when the first batch is requested."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._read())

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of the relation, in record batches."""
        import pyarrow as pa

        for batch in self.frame.to_arrow_reader(LARGE_BATCH_ROWS):
            yield from _read_batch(pa.table(batch), self.wanted, self.declared).to_batches()


def relation_batches(frame: object, declared: Declared) -> RelationBatches:
    """Return the declared columns that a relation has, without reading its rows.

    Raises
    ------
    DataError
        DP-DATA-001 if the relation can't be run, DP-DATA-003 for names that differ only in case,
        DP-DATA-004 for a type that can't be read as declared.
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
        raise DataError("DP-DATA-001", **source_fields(declared, False), format="a relation")
    folded = [name.casefold() for name in names]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
    wanted = tuple(name for name in stored_columns(declared) if name in names)
    return RelationBatches(
        declared, frame, wanted, _read_batch(empty, wanted, declared).schema, collations
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


def _read_batch(table: pa.Table, wanted: Sequence[str], declared: Declared) -> pa.Table:
    """Return the wanted columns of a batch with the declared types."""
    import pyarrow as pa

    if not wanted:  # only rows are counted
        return pa.table({"dp_row": pa.nulls(len(table))})
    return pa.table({name: read_as_declared(table[name], name, declared) for name in wanted})
