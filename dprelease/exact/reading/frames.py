"""pandas and Arrow frames as Arrow tables of the declared columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dprelease.errors import DataError, FrameError, State
from dprelease.errors.words.data_words import CONVERT
from dprelease.exact.reading.arrow import is_odd_decimal, readable
from dprelease.exact.reading.cell_texts import Reading, stored_as, texts_of
from dprelease.exact.reading.sources import named, stored_columns
from dprelease.schema.load import Declared
from dprelease.statements.meanings import loses
from dprelease.statements.values.source_equality import is_no_id

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Made = TypeVar("Made")


def to_arrow(frame: object, declared: Declared) -> pa.Table:
    """Return an Arrow table with the declared columns that `frame` has, without touching a disk.

    Raises
    ------
    DataError
        DP-DATA-003 for names that differ by case only, DP-DATA-004 for a column of a type that
        Arrow does not know, DP-DATA-006 where memory does not suffice.
    FrameError
        DP-DATA-017 if it is not a frame.
    """
    return within_memory(declared, lambda: _to_arrow(frame, declared))


def within_memory(declared: Declared, work: Callable[[], Made]) -> Made:
    """Return what `work` makes of a frame; raise DP-DATA-006 where memory does not suffice.

    Arrow's own words, which say how much was asked for, go no further.
    """
    import pyarrow as pa

    try:
        return work()
    except (MemoryError, pa.ArrowException):
        failure = DataError("DP-DATA-006", state=State.NOTHING, **named(declared, False))
    raise failure


def _to_arrow(frame: object, declared: Declared) -> pa.Table:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        names = [str(name) for name in frame.column_names]
    elif _is_pandas(frame):
        names = [str(name) for name in frame.columns]  # type: ignore[attr-defined]
    else:
        kind = kind_of_object(frame)
        raise FrameError("DP-DATA-017", table=declared.table.name, kind=kind)
    folded = [name.casefold() for name in names]
    wanted = [name for name in stored_columns(declared) if name in names]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)
    if isinstance(frame, pa.Table):
        arrays = {name: frame[name] for name in wanted}
    else:
        arrays = {name: _array(frame[name], name, declared) for name in wanted}  # type: ignore[index]
    if not arrays:
        return pa.table({"dp_row": pa.nulls(len(frame))})  # type: ignore[arg-type]
    return pa.table(
        {name: read_as_declared(array, name, declared) for name, array in arrays.items()}
    )


def kind_of_object(given: object) -> str:
    """Return what an object is in words, such as "polars LazyFrame"."""
    kind = f"{type(given).__module__.split('.')[0]} {type(given).__name__}"
    return kind.removeprefix("builtins ")


def _is_pandas(frame: object) -> bool:
    """Return whether it is a pandas frame; who has one has imported pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _array(series: pd.Series, name: str, declared: Declared) -> pa.Array | pa.ChunkedArray:
    import pyarrow as pa

    series = _dense(series)
    if series.dtype == object or getattr(series.dtype, "storage", None) == "python":
        return _objects(series, name, declared)
    if getattr(series.dtype, "name", "") == "category":
        return _categories(series, name, declared)
    failed = False
    try:
        array = pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        failed = True
    if failed:
        raise _mistyped(name, str(series.dtype), declared)
    return array


def _objects(series: pd.Series, name: str, declared: Declared) -> pa.Array:
    """Return the texts of Python objects; nothing, of the type of a cell that may have lost its.

    pandas reads a long file by parts, each with types of its own: one row with a letter, or without
    a value, makes texts or floats of thousands beside it, and objects of the column. As such a type
    it is refused where it is asked of, like a column that was stored in it.
    """
    import pyarrow as pa

    column = declared.table.columns[name]
    texts = texts_of(series, Reading.of(column, declared.table.time_zone))
    types = {
        "BOOLEAN": pa.bool_(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "DECIMAL": pa.decimal128(38, 0),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us"),
    }
    for stored in stored_as(series, texts):
        is_id = name == declared.table.privacy_unit.id
        if loses(column, stored) or (is_id and is_no_id(stored)):
            return pa.nulls(len(series), types[stored])
    return pa.array(texts, type=pa.string())


def _categories(series: pd.Series, name: str, declared: Declared) -> pa.Array | pa.ChunkedArray:
    """Return a categorical column as its cells are: what a category is, is read like any cell."""
    import pyarrow as pa

    values = _array(series.cat.categories.to_series(), name, declared)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    codes = series.cat.codes.to_numpy()
    places = pa.array(codes, mask=codes < 0)
    texts = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if texts and values.null_count == 0 and len(values.unique()) == len(values):
        return pa.DictionaryArray.from_arrays(places, values)
    return values.take(places)


def _dense(series: pd.Series) -> pd.Series:
    sparse = hasattr(series.dtype, "fill_value")
    return series.sparse.to_dense() if sparse else series  # type: ignore[attr-defined]


def read_as_declared(
    given: pa.Array | pa.ChunkedArray, name: str, declared: Declared
) -> pa.Array | pa.ChunkedArray:
    """Return a column that the engine reads without a failure that depends on a value.

    Raises
    ------
    DataError
        DP-DATA-004 if the engine has no type for it.
    """
    import pyarrow as pa

    kind = given.type
    coded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    is_odd = is_odd_decimal(kind.value_type if coded else kind)
    if is_odd and loses(declared.table.columns[name], "DECIMAL"):
        return pa.nulls(len(given), pa.decimal128(38, 0))  # refused, as other decimals are
    column = readable(given)
    if column is None:
        raise _mistyped(name, str(given.type), declared)
    return column


def _mistyped(name: str, physical: str, declared: Declared) -> DataError:
    kind = getattr(declared.table.columns[name], "type", "cut")
    return DataError("DP-DATA-004", column=name, physical=physical, declared=kind, way=CONVERT)
