"""Convert pandas, polars and Arrow frames to Arrow tables of the declared columns.

Each stored type has one conversion, which depends only on the type, and which can't fail for any
value. When pandas creates a series or an index of Python objects, it inspects their values and
fails at some of them, so this module creates none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dprelease.errors import DataError, DpReleaseError, FrameError, State
from dprelease.errors.catalogue.data_errors import CONVERT, DECODE
from dprelease.exact.reading.arrow import is_unsupported_decimal, to_readable_type
from dprelease.exact.reading.cell_texts import TextReading, texts_of
from dprelease.exact.reading.sources import source_fields, stored_columns
from dprelease.schema.columns import CategoryColumn, DateColumn, TimestampColumn
from dprelease.schema.load import Declared
from dprelease.statements.values.lossy_types import may_lose_values
from dprelease.statements.values.physical import OBJECTS, OF_OBJECTS, are_bytes
from dprelease.statements.values.spelling import reads_integers
from dprelease.system.deferred_signals import reraise_handler_errors

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Made = TypeVar("Made")


def to_arrow(frame: object, declared: Declared) -> pa.Table:
    """Return an Arrow table, in memory, with the declared columns that a frame has.

    Raises DataError: DP-DATA-003 for names that differ only in case, DP-DATA-004 for a column of a
    type that Arrow does not know, DP-DATA-006 if there is not enough memory. Raises FrameError:
    DP-DATA-017 if `frame` is not a frame.
    """
    return attempt(declared, lambda: _to_arrow(frame, declared))


def attempt(declared: Declared, work: Callable[[], Made]) -> Made:
    """Return the result of `work` on a frame; raise DP-DATA-006 for any exception of a library.

    The exception of the library is dropped, because a traceback would print its message, which may
    quote a cell or the requested memory.
    """
    failure: DataError | None = None
    with reraise_handler_errors():
        try:
            return work()
        except DpReleaseError:
            raise
        except Exception:  # noqa: BLE001 - pandas, Arrow and classes of the caller's own
            failure = DataError(
                "DP-DATA-006", state=State.NOTHING, **source_fields(declared, False)
            )
    raise failure


def _to_arrow(frame: object, declared: Declared) -> pa.Table:
    """Return the declared columns of a data frame as an Arrow table."""
    import pyarrow as pa

    names = _column_names(frame, declared)
    refuse_ambiguous_names(names, declared)
    columns = {}
    for name in stored_columns(declared):
        if name in names:
            columns[name] = _read_column(frame, names.index(name), name, declared)
    if not columns:
        return pa.table({"dp_row": pa.nulls(len(frame))})  # type: ignore[arg-type]
    return pa.table(columns)


def _read_column(
    frame: Any, place: int, name: str, declared: Declared
) -> pa.Array | pa.ChunkedArray:
    """Return a column of a frame in a type that the engine reads."""
    if is_instance_of(frame, "pandas", "DataFrame"):
        # By place, because pandas returns a frame for a name that occurs twice.
        return _read_pandas_column(frame.iloc[:, place].array, name, declared)
    if not is_instance_of(frame, "polars", "DataFrame"):
        return read_as_declared(frame.column(place), name, declared)
    polars_types(frame.schema, [name], declared)
    return read_as_declared(frame.to_series(place).to_arrow(), name, declared)


def polars_types(
    schema: Mapping[str, Any], names: Sequence[str], declared: Declared
) -> dict[str, pa.DataType]:
    """Return the Arrow types of columns of a polars frame, by their polars types alone.

    Raises DataError: DP-DATA-004 if Arrow has no type for the column.
    """
    import polars as pl

    types: dict[str, pa.DataType] = {}
    for name in names:
        physical = schema[name]
        try:
            types[name] = pl.Series([], dtype=physical).to_arrow().type
        except Exception:  # noqa: BLE001 - whatever polars or Arrow raises for an unknown type
            types.pop(name, None)
        if name not in types:
            raise _type_mismatch_error(name, f"{physical.base_type()}", declared)
    return types


def refuse_ambiguous_names(names: Sequence[str | None], declared: Declared) -> None:
    """Raise DataError DP-DATA-003 for declared columns whose names differ only in case."""
    folded = [name.casefold() for name in names if name is not None]
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            raise DataError("DP-DATA-003", table=declared.table.name, column=name)


def _column_names(frame: object, declared: Declared) -> list[str | None]:
    """Return the names of a frame's columns, None for labels that are not texts.

    Raises FrameError: DP-DATA-017 if `frame` is not a frame.
    """
    if is_instance_of(frame, "pandas", "DataFrame"):
        return column_labels(frame)  # type: ignore[arg-type]
    if is_eager(frame):
        return [*names_in_memory(frame)]
    kind = kind_of_object(frame)
    raise FrameError("DP-DATA-017", table=declared.table.name, kind=kind)


def names_in_memory(frame: object) -> list[str]:
    """Return the names of the columns of a frame in memory; empty for any other object."""
    if is_instance_of(frame, "pandas", "DataFrame"):
        return [name for name in column_labels(frame) if name is not None]  # type: ignore[arg-type]
    if is_instance_of(frame, "polars", "DataFrame"):
        return list(frame.columns)  # type: ignore[attr-defined]
    return list(frame.schema.names) if is_eager(frame) else []  # type: ignore[attr-defined]


def is_eager(frame: object) -> bool:
    """Return whether an object is a frame of pandas, polars or Arrow in memory."""
    return any(is_instance_of(frame, module, name) for module, name in EAGER)


EAGER = (
    ("pandas", "DataFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
    ("polars", "DataFrame"),
)
"""Classes of frames in memory, by module and name."""


def is_instance_of(value: object, module: str, name: str) -> bool:
    """Return whether an object is of a class, whose module is imported if there is such an object.

    The class that the object itself pretends to have is ignored.
    """
    known = getattr(sys.modules.get(module), name, None)
    return known is not None and issubclass(type(value), known)


def kind_of_object(given: object) -> str:
    """Return the type of an object in words, such as "polars LazyFrame"."""
    kind = f"{type(given).__module__.split('.')[0]} {type(given).__name__}"
    return kind.removeprefix("builtins ")


def _read_pandas_column(array: Any, name: str, declared: Declared) -> pa.Array | pa.ChunkedArray:
    """Return a column of a pandas frame in a type that the engine reads.

    Raises DataError: DP-DATA-004 if the engine has no type for the column.
    """
    import pyarrow as pa

    if may_mix_types(array) and _loses_objects(name, declared):
        return pa.nulls(len(array), pa.binary())
    column = declared.table.columns[name]
    cells = arrow_cells(array, TextReading.of_objects(column, declared.table.time_zone))
    if cells is None:
        raise _type_mismatch_error(name, type_name(array), declared)
    return read_as_declared(cells, name, declared)


def _loses_objects(name: str, declared: Declared) -> bool:
    """Return whether a column of Python objects may have lost values that its declared type needs.

    pandas reads a long file in parts, each with types of its own: one row with a letter, or without
    a value, turns the values of thousands of other rows into texts or floats, and the column into
    objects. Whether this has happened depends on the cells, so every such column is refused.
    """
    column = declared.table.columns[name]
    is_id = name in declared.table.ids
    return is_id or any(may_lose_values(column, stored) for stored in OF_OBJECTS)


def object_columns(table: pa.Table) -> dict[str, str]:
    """Return the columns of a result of `to_arrow` that are refused, with the type of objects.

    A column is refused if its Python objects may have lost values that its declared type needs.
    """
    import pyarrow as pa

    return {field.name: OBJECTS for field in table.schema if pa.types.is_binary(field.type)}


def column_labels(frame: pd.DataFrame) -> list[str | None]:
    """Return the names of the columns of a frame, in order; None for labels that are not texts."""
    return [str.__str__(label) if issubclass(type(label), str) else None for label in frame.columns]


def is_sparse(array: Any) -> bool:
    """Return whether an array stores only the cells that differ from a fill value."""
    import pandas as pd

    return isinstance(array, pd.arrays.SparseArray)


def may_mix_types(array: Any) -> bool:
    """Return whether the type of an array does not determine the types of its cells."""
    import pandas as pd

    if isinstance(array, pd.Categorical):
        return may_mix_types(array.categories.array)
    if is_sparse(array):
        return bool(array.dtype.subtype.kind == "O")
    is_plain = type(array) is pd.arrays.NumpyExtensionArray
    return is_plain and bool(array.dtype.numpy_dtype.kind == "O")


def holds_python_objects(array: Any) -> bool:
    """Return whether an array holds Python objects, even if all are texts."""
    import pandas as pd

    return may_mix_types(array) or isinstance(array, pd.arrays.StringArray)


def type_name(array: Any) -> str:
    """Return the name of a stored type; it contains no value."""
    if is_sparse(array):
        return f"Sparse[{array.dtype.subtype}]"
    return str(array.dtype) if _is_pandas_array(array) else type(array.dtype).__name__


def arrow_cells(array: Any, reading: TextReading) -> pa.Array | pa.ChunkedArray | None:
    """Return the cells of a pandas array; Python objects become texts.

    The result is None if Arrow has no type for the array's type, or if the class of the array is
    not a class of pandas, because other classes may convert their cells in any way.
    """
    import pandas as pd
    import pyarrow as pa

    if not _is_pandas_array(array):
        return None
    if isinstance(array, pd.Categorical):
        return _category_cells(array, reading)
    if is_sparse(array):
        array = _dense_cells(array)
    if holds_python_objects(array):
        return pa.array(texts_of(np.asarray(array, dtype=object), reading), pa.large_string())
    series = pd.Series(array, copy=False)
    try:
        # Tried without rows, so that no value decides whether the type can be converted.
        pa.Array.from_pandas(series.iloc[:0])
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError):
        return None
    return pa.Array.from_pandas(series)


def _is_pandas_array(array: Any) -> bool:
    """Return whether an array is of a supported class of pandas, and not of a derived one."""
    import pandas as pd

    arrays = pd.arrays
    known = (
        arrays.ArrowExtensionArray, arrays.ArrowStringArray, arrays.BooleanArray,
        arrays.DatetimeArray, arrays.FloatingArray, arrays.IntegerArray,
        arrays.NumpyExtensionArray, arrays.SparseArray, arrays.StringArray, pd.Categorical,
    )  # fmt: skip
    return isinstance(array, known) and type(array).__module__.partition(".")[0] == "pandas"


def _category_cells(
    array: pd.Categorical, reading: TextReading
) -> pa.Array | pa.ChunkedArray | None:
    """Return the cells of a categorical array, whose categories are converted like other cells."""
    import pyarrow as pa

    values = arrow_cells(array.categories.array, reading)
    if values is None:
        return None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    codes = np.asarray(array.codes)
    # pandas has the code -1 for a missing cell.
    places = pa.array(codes, mask=codes < 0)
    texts = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    # Categories that differ as objects may be the same text, such as 1 and '1'. The engine must not
    # get two codes for one value.
    if texts and values.null_count == 0 and len(values.unique()) == len(values):
        return pa.DictionaryArray.from_arrays(places, values)
    return values.take(places)


def _dense_cells(array: Any) -> Any:
    """Return all cells of a sparse array; floats for integers that may have missing cells."""
    import pandas as pd

    kind, fill = array.dtype.subtype, type(array.dtype.fill_value)
    if kind.kind in "biu" and not issubclass(fill, bool | int | np.integer | np.bool_):
        kind = np.dtype(float)
    return pd.arrays.NumpyExtensionArray(np.asarray(array, dtype=kind))


def read_as_declared(
    given: pa.Array | pa.ChunkedArray, name: str, declared: Declared
) -> pa.Array | pa.ChunkedArray:
    """Return a column in a type that the engine reads, such that no value can make reading fail.

    Raises DataError: DP-DATA-004 if the engine has no type for the column, DP-DATA-028 for a time
    zone that is not declared.
    """
    import pyarrow as pa

    kind = given.type
    coded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    stored = kind.value_type if coded else kind
    is_odd = is_unsupported_decimal(stored)
    declared_column = declared.table.columns[name]
    if isinstance(declared_column, CategoryColumn | DateColumn | TimestampColumn):
        _refuse_undeclared_zone(getattr(stored, "tz", None), name, declared)
    is_refused = may_lose_values(declared_column, "DECIMAL") or (
        isinstance(declared_column, DateColumn | TimestampColumn)
        and not reads_integers(declared_column.format)
    )
    if is_odd and is_refused:
        return pa.nulls(len(given), pa.decimal128(38, 0))  # refused later, like other decimals
    column = to_readable_type(given)
    if column is None:
        raise _type_mismatch_error(name, str(kind), declared)
    return column


def _refuse_undeclared_zone(zone: str | None, name: str, declared: Declared) -> None:
    """Raise DataError DP-DATA-028 for times with a zone, unless it is UTC or one is declared.

    Otherwise their hours and days would silently be those of UTC.
    """
    source = declared.table.source
    is_declared = source is not None and "time_zone" in source.model_fields_set
    if zone is not None and zone.upper() not in UTC_NAMES and not is_declared:
        table, known = declared.table.name, zone if zone[:1].isalpha() else "Europe/Vienna"
        raise DataError("DP-DATA-028", table=table, column=name, zone=zone, known=known)


UTC_NAMES = frozenset({"UTC", "ETC/UTC", "GMT", "ETC/GMT", "ZULU", "+00:00"})
"""Names of UTC in Arrow, in upper case."""


def _type_mismatch_error(name: str, physical: str, declared: Declared) -> DataError:
    """Return the error of a column whose stored type can't be read as the declared type."""
    kind = getattr(declared.table.columns[name], "type", "cut")
    way = DECODE.format(column=name) if are_bytes(physical) else CONVERT
    return DataError("DP-DATA-004", column=name, physical=physical, declared=kind, way=way)
