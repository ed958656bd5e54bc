"""Compare the rows of a frame with those of the first frame of its session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from dprelease.errors import DataError, SessionError
from dprelease.exact.reading.arrow import decode_dictionary, to_readable_type
from dprelease.exact.reading.cell_texts import TextReading
from dprelease.exact.reading.frames import (
    arrow_cells,
    column_labels,
    holds_python_objects,
    is_instance_of,
    is_sparse,
    to_arrow,
)
from dprelease.exact.reading.sources import stored_columns
from dprelease.exact.reading.streams import frame_batches
from dprelease.schema.load import Declared
from dprelease.statements.values.source_equality import RELATION, inexact_comparison_error

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

AS_READ = TextReading(decodes_bytes=True)


def snapshot_of(frame: object, declared: Declared) -> object:
    """Return the declared columns of a frame, which no later change of the frame can change.

    A pandas frame is copied, because a write into a column's `array` changes every frame that
    shares its memory, despite copy-on-write. The columns of polars and Arrow are shared, because
    their memory never changes. All other frames are read into memory, once.

    Raises
    ------
    DataError
        The errors of `frame_batches` and `to_arrow`; DP-DATA-026 for ids that the library of the
        frame does not compare character by character.
    """
    names = stored_columns(declared)
    if is_instance_of(frame, "pandas", "DataFrame"):
        held = cast("pd.DataFrame", frame)
        places = [place for place, name in enumerate(column_labels(held)) if name in names]
        return held.iloc[:, places].copy()
    if is_instance_of(frame, "polars", "DataFrame"):
        rows = cast("pl.DataFrame", frame)
        return rows.drop([name for name in rows.columns if name not in names])
    return _table_of(frame, declared)


def _table_of(frame: object, declared: Declared) -> pa.Table:
    """Return the declared columns of a frame as an Arrow table of types that the engine reads."""
    batches = frame_batches(frame, declared)
    if batches is None:
        return to_arrow(frame, declared)
    unit = declared.table.privacy_unit.id
    if unit in batches.collations:
        raise inexact_comparison_error(RELATION, batches.collations[unit], unit, "id")
    return batches.table()


def refuse_other_rows(frame: object, known: object, declared: Declared) -> None:
    """Raise unless a frame holds the rows of a snapshot; declared columns may be missing from it.

    Raises
    ------
    SessionError
        DP-SESSION-002 for other rows, DP-SESSION-010 for a declared column that the snapshot lacks.
    DataError
        DP-DATA-003 for columns with the same name.
    """
    if all(is_instance_of(each, "pandas", "DataFrame") for each in (frame, known)):
        one, other = cast("pd.DataFrame", frame), cast("pd.DataFrame", known)
        _refuse_other_pandas_rows(one, other, declared)
    elif all(is_instance_of(each, "polars", "DataFrame") for each in (frame, known)):
        _refuse_other_polars_rows(
            cast("pl.DataFrame", frame), cast("pl.DataFrame", known), declared
        )
    else:
        _refuse_other_tables(_table_of(frame, declared), _table_of(known, declared))


def _refuse_other_polars_rows(frame: pl.DataFrame, known: pl.DataFrame, declared: Declared) -> None:
    """Raise unless a polars frame has the types and the values of the registered frame."""
    if frame.height != known.height:
        raise SessionError("DP-SESSION-002")
    for name in stored_columns(declared):
        if name in frame.columns:
            if name not in known.columns:
                raise SessionError("DP-SESSION-010", column=name)
            one, other = frame.get_column(name), known.get_column(name)
            # In polars, NaN equals NaN, and null equals null.
            if not one.equals(other, check_dtypes=True):
                raise SessionError("DP-SESSION-002")


def _refuse_other_tables(table: pa.Table, known: pa.Table) -> None:
    """Raise unless an Arrow table has the values of another one, whatever stored them as texts."""
    if table.num_rows != known.num_rows:
        raise SessionError("DP-SESSION-002")
    # The name of the empty column of a table that has no declared column.
    names = [name for name in table.column_names if name != "dp_row"]
    for name in names:
        if name not in known.column_names:
            raise SessionError("DP-SESSION-010", column=name)
        one, other = (_plain_column(each.column(name)) for each in (table, known))
        if one.type != other.type or not _same_arrow(one, other):
            raise SessionError("DP-SESSION-002")


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionary, whose texts are large strings."""
    import pyarrow as pa

    plain = decode_dictionary(column) if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.large_string()) if pa.types.is_string(plain.type) else plain


def _refuse_other_pandas_rows(frame: pd.DataFrame, known: pd.DataFrame, declared: Declared) -> None:
    """Raise unless a pandas frame has the index and the column values of the registered frame."""
    if not same_index(frame.index, known.index):
        raise SessionError("DP-SESSION-002")
    names, registered = column_labels(frame), column_labels(known)
    for name in stored_columns(declared):
        if max(names.count(name), registered.count(name)) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
        if name not in names:
            continue
        if name not in registered:
            raise SessionError("DP-SESSION-010", column=name)
        positions = (names.index(name), registered.index(name))
        if not same_cells(frame.iloc[:, positions[0]].array, known.iloc[:, positions[1]].array):
            raise SessionError("DP-SESSION-002")


def same_index(one: pd.Index, other: pd.Index) -> bool:
    """Return whether two indexes have equal values, where NaN equals NaN."""
    if one is other:
        return True
    if isinstance(one, pd.MultiIndex) and isinstance(other, pd.MultiIndex):
        return one.nlevels == other.nlevels and all(
            same_index(one.get_level_values(level), other.get_level_values(level))
            for level in range(one.nlevels)
        )
    if isinstance(one, pd.MultiIndex) or isinstance(other, pd.MultiIndex):
        return False
    if isinstance(one, pd.RangeIndex) and isinstance(other, pd.RangeIndex):
        return one.equals(other)
    arrays = (one.array, other.array)
    if _same_type(*arrays):
        return same_cells(*arrays)
    numpy = pd.arrays.NumpyExtensionArray
    numbers = all(type(array) is numpy and not holds_python_objects(array) for array in arrays)
    return numbers and one.equals(other)


def same_cells(one: Any, other: Any) -> bool:
    """Return whether two pandas arrays have the same type and equal values, where NaN equals NaN.

    Columns of a type that no query can read are compared only if pandas holds them as numbers.
    """
    if len(one) != len(other) or not _same_type(one, other):
        return False
    if _same_numbers(one, other) or (_is_fast_type(one) and one.equals(other)):
        return True
    if not _is_readable_type(one):
        arrays = pd.arrays
        held = (arrays.IntervalArray, arrays.PeriodArray, arrays.TimedeltaArray)
        return type(one) not in held or one.equals(other)
    mine, others = (arrow_cells(each, AS_READ) for each in (one, other))
    return _same_arrow(mine, others)


def _is_readable_type(array: Any) -> bool:
    """Return whether queries can read arrays of this type."""
    cells = arrow_cells(array[:0], AS_READ)
    return cells is not None and to_readable_type(cells) is not None


def _is_fast_type(array: Any) -> bool:
    """Return whether pandas compares arrays of this type fast, without calling Python objects."""
    arrays = pd.arrays
    return type(array) in (
        arrays.ArrowExtensionArray, arrays.ArrowStringArray, arrays.DatetimeArray,
    )  # fmt: skip


def _same_type(one: Any, other: Any) -> bool:
    """Return whether two pandas arrays have the same type, so that their values can be compared."""
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.Categorical):
        return _same_type(one.categories.array, other.categories.array)
    if is_sparse(one):
        return bool(one.dtype.subtype == other.dtype.subtype)
    return bool(one.dtype == other.dtype) or not _is_readable_type(one)


def _same_numbers(one: Any, other: Any) -> bool:
    """Return whether NumPy arrays of numbers are equal, where NaN equals NaN.

    False is inconclusive: the slower comparison decides then.
    """
    if not isinstance(one, pd.arrays.NumpyExtensionArray) or holds_python_objects(one):
        return False
    mine, others = np.asarray(one), np.asarray(other)
    return np.array_equal(mine, others, equal_nan=mine.dtype.kind == "f")


def _same_arrow(one: Any, other: Any) -> bool:
    """Return whether Arrow arrays hold equal values, where NaN equals NaN, unlike in Arrow."""
    import pyarrow as pa

    one, other = (
        pa.chunked_array([each]) if isinstance(each, pa.Array) else each for each in (one, other)
    )
    if one.type == other.type and one.equals(other):
        return True
    one, other = (
        decode_dictionary(e) if pa.types.is_dictionary(e.type) else e for e in (one, other)
    )
    if pa.types.is_floating(one.type):
        missing = np.array_equal(one.is_null().to_numpy(), other.is_null().to_numpy())
        return missing and np.array_equal(one.to_numpy(), other.to_numpy(), equal_nan=True)
    equal: bool = one.equals(other)
    return equal
