"""pandas and Arrow frames as Arrow tables of the declared columns."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.sources import stored_columns
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TELLING = (str, bool, int, float, decimal.Decimal, datetime.date, datetime.datetime)
"""Python objects whose text is their value; any other object counts as missing."""


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
        return frame.select(wanted)
    arrays = {name: _array(frame[name], name, declared) for name in wanted}  # type: ignore[index]
    if not arrays:
        return pa.table({"dp_row": pa.nulls(len(frame))})  # type: ignore[arg-type]
    return pa.table(arrays)


def _array(series: pd.Series, name: str, declared: Declared) -> pa.Array | pa.ChunkedArray:
    import pyarrow as pa

    if series.dtype == object:
        texts = [str(value) if isinstance(value, TELLING) else None for value in series]
        return pa.array([None if text == "nan" else text for text in texts], type=pa.string())
    failed = False
    try:
        found = pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        failed = True
    if failed:
        kind = getattr(declared.table.columns[name], "type", "cut")
        raise DataError("DP-DATA-004", column=name, physical=str(series.dtype), declared=kind)
    return found
