"""Read frames whose rows arrive in batches: lazy frames, datasets, expressions and Arrow streams.

The rows are fetched only once. Which types are refused depends on the types alone, never on a cell.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from dprelease.errors import DataError, FrameError
from dprelease.exact.reading.frames import (
    is_eager,
    is_instance_of,
    kind_of_object,
    polars_types,
    read_as_declared,
    refuse_ambiguous_names,
)
from dprelease.exact.reading.sources import source_fields, stored_columns
from dprelease.exact.results.vectors import LARGE_BATCH_ROWS
from dprelease.schema.load import Declared
from dprelease.schema.source_types.source_type import OTHER
from dprelease.statements.values.source_equality import engine_collations
from dprelease.system.deferred_signals import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa

EXACT_BACKENDS = ("duckdb", "polars", "datafusion")
"""Backends of Ibis that compare texts character by character."""


@dataclass(frozen=True)
class FrameBatches:
    """The declared columns that a frame has; their rows are read on request, in batches.

    `schema`: their types as they are read. `batches`: a function that starts reading, and yields
    the columns `wanted`. `collations`: see `engine_collations`.
    """

    declared: Declared
    wanted: tuple[str, ...]
    schema: pa.Schema
    batches: Callable[[], Iterable[Any]]
    collations: dict[str, str] = field(default_factory=dict)

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; reading starts when the first batch is requested."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._read())

    def table(self) -> pa.Table:
        """Return all rows in memory.

        Raises DataError: DP-DATA-006 if the frame can't be read.
        """
        import pyarrow as pa

        failed = False
        with reraise_handler_errors():
            try:
                return pa.Table.from_batches(self._read(), self.schema)
            except (OSError, MemoryError):
                failed = True
        assert failed
        raise DataError("DP-DATA-006", **source_fields(self.declared, False))

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of the frame, in record batches.

        Raises OSError for any exception of the library that runs the frame, because its message may
        quote a cell.
        """
        rows = _Guarded(self.batches)
        while (batch := rows.next_batch()) is not None:
            yield from columns_as_declared(batch, self.wanted, self.declared).to_batches()


class _Guarded:
    """An iterator over the batches of a frame whose exceptions have no text of the library."""

    def __init__(self, batches: Callable[[], Iterable[Any]]) -> None:
        self._start = batches
        self._rows: Iterator[Any] | None = None

    def next_batch(self) -> Any:
        """Return the next batch, None after the last one; raise OSError if there is none."""
        try:
            if self._rows is None:
                self._rows = iter(self._start())
            return next(self._rows, None)
        except BaseException as problem:  # Rust's panics are no instances of `Exception`
            if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
                raise
        raise OSError


def columns_as_declared(batch: Any, wanted: Sequence[str], declared: Declared) -> pa.Table:
    """Return the wanted columns of a batch with the declared types."""
    import pyarrow as pa

    if not wanted:  # only rows are counted
        return pa.table({"dp_row": pa.nulls(batch.num_rows)})
    return pa.table(
        {name: read_as_declared(_chunked(batch.column(name)), name, declared) for name in wanted}
    )


def _chunked(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of a record batch, or of a table, as a chunked array."""
    import pyarrow as pa

    return pa.chunked_array([column]) if isinstance(column, pa.Array) else column


Opened = tuple[
    Sequence[str],
    Callable[[Sequence[str]], "pa.Table"],
    Callable[[Sequence[str]], Iterable[Any]],
]
"""The names of a frame's columns, and functions of wanted columns: their types as a table without
rows, and their batches."""


def stream_batches(frame: object, declared: Declared) -> FrameBatches | None:
    """Return the declared columns that a frame has, without reading rows; None for other frames.

    Raises DataError: DP-DATA-003 for names that differ only in case, DP-DATA-004 for a type that
    can't be read as declared, DP-DATA-027 if the library of the frame fails. Raises FrameError:
    DP-DATA-021 if the frame can be read only once, and was read before.
    """
    opener = _opener(frame)
    if opener is None or is_eager(frame):
        return None
    opened: Opened | None = None
    empty: pa.Table | None = None
    wanted: tuple[str, ...] = ()
    _refuse_second_reading(frame, declared)
    with reraise_handler_errors():
        try:
            opened = opener(frame, declared)
            refuse_ambiguous_names(opened[0], declared)
            wanted = tuple(name for name in stored_columns(declared) if name in opened[0])
            empty = opened[1](wanted)
        except DataError:
            raise
        except Exception:  # noqa: BLE001 - any library's
            empty = None
    if opened is None or empty is None:
        raise unusable_frame_error(frame, declared)
    batches = opened[2]
    schema = columns_as_declared(empty, wanted, declared).schema
    return FrameBatches(
        declared, wanted, schema, lambda: batches(wanted), _collations_of_ibis(frame, empty)
    )


def unusable_frame_error(frame: object, declared: Declared) -> DataError:
    """Return the error DP-DATA-027 of a frame that its own library can't run."""
    return DataError("DP-DATA-027", table=declared.table.name, kind=kind_of_object(frame))


def is_streamed(frame: object) -> bool:
    """Return whether the rows of an object arrive in batches."""
    return not is_eager(frame) and _opener(frame) is not None


def _opener(frame: object) -> Callable[[Any, Declared], Opened] | None:
    """Return the function that opens a frame of this kind; None if its rows come in no batches."""
    for module, name, opener in (
        ("polars", "LazyFrame", _open_lazy),
        ("pyarrow.dataset", "Dataset", _open_dataset),
        ("ibis.expr.types", "Table", _open_expression),
    ):
        if is_instance_of(frame, module, name):
            return opener
    return _open_stream if _is_stream(frame) else None


def _is_stream(frame: object) -> bool:
    """Return whether an object exports a stream of record batches; columns do so, too."""
    columns = ("Series", "Array", "Column", "Scalar")
    name = type(frame).__name__
    return hasattr(type(frame), "__arrow_c_stream__") and not name.endswith(columns)


def _open_lazy(frame: Any, declared: Declared) -> Opened:
    """Open a lazy frame of polars, which reads only the wanted columns, in its streaming engine."""
    import polars as pl
    import polars.selectors as cs

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        """Yield the wanted columns."""
        if wanted:
            parts = frame.select(cs.by_name(*wanted))
            for part in parts.collect_batches(engine="streaming", lazy=True):
                yield part.to_arrow()
        else:
            yield _rows_only(frame.select(pl.len()).collect(engine="streaming").item())

    def types(wanted: Sequence[str]) -> pa.Table:
        """Return the types of the wanted columns."""
        import pyarrow as pa

        return pa.schema(polars_types(schema, wanted, declared)).empty_table()

    schema = frame.collect_schema()
    return schema.names(), types, batches


def _open_dataset(dataset: Any, _: Declared) -> Opened:
    """Open a dataset of Arrow, which reads only the wanted columns."""

    def batches(wanted: Sequence[str]) -> Iterable[Any]:
        """Return the wanted columns."""
        rows: Iterable[Any] = dataset.scanner(columns=list(wanted)).to_batches()
        return rows

    names = dataset.schema.names
    return names, lambda wanted: dataset.schema.empty_table().select(list(wanted)), batches


def _open_expression(table: Any, _: Declared) -> Opened:
    """Open a table expression of Ibis, which its backend computes."""
    import pyarrow as pa

    backend = table.get_backend()

    def types(wanted: Sequence[str]) -> pa.Table:
        """Return the types of the wanted columns."""
        if not wanted:
            return _rows_only(0)
        return table.select(*wanted).schema().to_pyarrow().empty_table()

    def batches(wanted: Sequence[str]) -> Iterable[Any]:
        """Return the wanted columns."""
        if not wanted:
            return [_rows_only(backend.to_pyarrow(table.count()).as_py())]
        rows: Iterable[Any] = pa.RecordBatchReader.from_stream(table.select(*wanted))
        return rows

    return list(table.columns), types, batches


def _open_stream(frame: Any, _: Declared) -> Opened:
    """Open any other object that exports record batches by Arrow's C interface."""
    import pyarrow as pa

    is_reader = isinstance(frame, pa.RecordBatchReader)
    reader = frame if is_reader else pa.RecordBatchReader.from_stream(frame)
    _READ.append(_reference(frame))
    empty = reader.schema.empty_table()
    return reader.schema.names, lambda wanted: empty.select(list(wanted)), lambda _: reader


def _rows_only(number: int) -> pa.Table:
    """Return a table with a number of rows and no values."""
    import pyarrow as pa

    return pa.table({"dp_row": pa.nulls(number)})


_READ: list[Callable[[], object]] = []
"""References to the streams that were opened, and can be read only once."""


def _reference(frame: object) -> Callable[[], object]:
    """Return a function that returns an object, or None once nobody else holds the object."""
    try:
        # Weak, so that noting a stream does not keep its rows in memory.
        return weakref.ref(frame)
    except TypeError:
        return lambda: frame


def _refuse_second_reading(frame: object, declared: Declared) -> None:
    """Raise FrameError DP-DATA-021 for a stream that was opened before: its rows may be gone."""
    _READ[:] = [held for held in _READ if held() is not None]
    if any(held() is frame for held in _READ):
        kind = kind_of_object(frame)
        raise FrameError("DP-DATA-021", table=declared.table.name, kind=kind)


def _collations_of_ibis(frame: Any, empty: pa.Table) -> dict[str, str]:
    """Return the text columns of an Ibis expression whose backend may compare them otherwise."""
    import pyarrow as pa

    is_expression = is_instance_of(frame, "ibis.expr.types", "Table")
    if not is_expression or frame.get_backend().name in EXACT_BACKENDS:
        return {}
    return {column.name: OTHER for column in empty.schema if not pa.types.is_integer(column.type)}


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
