"""pandas and Arrow frames as Arrow tables of the declared columns."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import TYPE_CHECKING

import numpy as np

from dprelease.errors import DataError
from dprelease.exact.sources import stored_columns
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TICKS = {"s": 1, "ms": 1000}
WIDEST = 1000
"""Bits of an integer in a column of Python objects; what is longer counts as missing."""


def to_arrow(frame: object, declared: Declared) -> pa.Table:
    """Return an Arrow table with the declared columns that `frame` has, without touching a disk.

    Raises
    ------
    DataError
        DP-DATA-003 for names that differ by case only, DP-DATA-004 for a column of a type that
        Arrow does not know, DP-DATA-008 if it is not a frame.
    """
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        names = [str(name) for name in frame.column_names]
    elif hasattr(frame, "columns") and hasattr(frame, "dtypes"):
        names = [str(name) for name in frame.columns]
    else:
        raise DataError("DP-DATA-008", table=declared.table.name)
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
    return pa.table({name: readable(found, name, declared) for name, found in arrays.items()})


def _array(series: pd.Series, name: str, declared: Declared) -> pa.Array | pa.ChunkedArray:
    import pyarrow as pa

    if series.dtype == object or getattr(series.dtype, "storage", None) == "python":
        return pa.array([_telling(value) for value in series], type=pa.string())
    failed = False
    try:
        found = pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        failed = True
    if failed:
        raise _mistyped(name, str(series.dtype), declared)
    return found


def readable(
    found: pa.Array | pa.ChunkedArray, name: str, declared: Declared
) -> pa.Array | pa.ChunkedArray:
    """Return a column that the engine reads without a failure that depends on a value."""
    import pyarrow as pa

    kind = found.type
    if pa.types.is_float16(kind) or pa.types.is_decimal256(kind):
        raise _mistyped(name, str(kind), declared)
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in TICKS:
        return _in_microseconds(found)
    return found


def _in_microseconds(found: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return zoned instants in microseconds; what does not fit, far beyond any year, is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ticks = found.cast(pa.int64())
    factor = 10**6 // TICKS[found.type.unit]
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(ticks, limit), pc.greater_equal(ticks, -limit))
    inside = pc.if_else(fits, ticks, pa.scalar(None, pa.int64()))
    return pc.multiply(inside, factor).cast(pa.timestamp("us", found.type.tz))


def _mistyped(name: str, physical: str, declared: Declared) -> DataError:
    kind = getattr(declared.table.columns[name], "type", "cut")
    return DataError("DP-DATA-004", column=name, physical=physical, declared=kind)


def _telling(value: object) -> str | None:
    """Return a Python object as the text that is its value; None if it has none.

    Total: a text that no UTF-8 can hold, and an integer too long to be anything but damage, count
    as missing.
    """
    if isinstance(value, np.integer | np.floating | np.bool_):
        value = value.item()
    if isinstance(value, str):
        text = str.__str__(value)
        return text if _is_unicode(text) else None
    if isinstance(value, bool):
        return "true" if value else "false"  # as the engine writes them
    if isinstance(value, int):
        return int.__repr__(value) if int.bit_length(value) <= WIDEST else None
    if isinstance(value, float):
        return None if math.isnan(value) else float.__repr__(value)
    if isinstance(value, decimal.Decimal):
        return None if decimal.Decimal.is_nan(value) else decimal.Decimal.__str__(value)
    if isinstance(value, datetime.date):
        return _day_or_instant(value)
    return None


def _day_or_instant(value: datetime.date) -> str | None:
    # pandas' NaT passes as a date, and is the only one that differs from itself.
    return str(value) if value == value else None


def _is_unicode(text: str) -> bool:
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True
