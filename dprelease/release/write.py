"""Noised tables as Parquet: keys from the plan, types from the plan, no statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dprelease.numerics.lattice import Flags, Integers
from dprelease.numerics.rounding import decimal_digits
from dprelease.query.keys import Key
from dprelease.query.resolve import Query
from dprelease.release.finish import finished
from dprelease.release.perturb import NoisyTable
from dprelease.release.plan import PlannedColumn

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 20
WIDEST_STEP = 17
"""Digits of a step: with 20 digits of a 64-bit number they fill a 128-bit decimal."""


def to_arrow(noisy: NoisyTable, columns: Sequence[PlannedColumn]) -> pa.Table:
    """Return keys, noised columns and declared margins, one row for each cell in key order."""
    import pyarrow as pa

    query = columns[0].query
    arrays: dict[str, pa.Array] = {}
    for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
        codes = np.arange(noisy.size) // stride % len(key.values)
        arrays[key.column] = _key_values(key).take(_wrapped(pa.int64(), codes))
    for column in columns:
        name, step = column.measure.name, column.measure.step
        steps, empty = finished(noisy.columns[name], column.measure.post)
        values = _scaled(steps, step)
        arrays[name] = values if empty is None else _without(values, empty)
        if column.measure.margin is not None:
            width = column.mechanism.half_width(float(column.measure.margin))
            arrays[f"{name}_moe"] = _scaled(np.full(noisy.size, width), step)
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def schema_of(query: Query) -> list[tuple[str, str]]:
    """Return name and Arrow type of every column that a query publishes."""
    names = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}
    found = [(key.column, names[key.kind]) for key in query.keys.keys]
    for measure in query.measures:
        digits = decimal_digits(measure.step) or 0
        kind = "int64" if measure.step == 1 else f"decimal128(38, {digits})"
        found.append((measure.name, kind))
        if measure.margin is not None:
            found.append((f"{measure.name}_moe", kind))
    return found


def _key_values(key: Key) -> pa.Array:
    """Return the declared values of a key, in order."""
    import pyarrow as pa

    if key.kind == "text":
        return _texts([str(value) for value in key.values])
    if key.kind == "date":
        epoch = date(1970, 1, 1)
        days = [(value - epoch).days for value in key.values if isinstance(value, date)]
        return _wrapped(pa.date32(), np.array(days, dtype=np.int32))
    whole = _wrapped(pa.int64(), np.array([int(value) for value in key.values]))  # type: ignore[arg-type]
    return whole if key.kind == "integer" else whole.cast(pa.bool_())


def _wrapped(kind: pa.DataType, values: NDArray[Any]) -> pa.Array:
    """Return an Arrow array over a NumPy array of the same width.

    Not `pa.array`: it imports pandas, which would cost every run more than its own work.
    """
    import pyarrow as pa

    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _texts(values: list[str]) -> pa.Array:
    import pyarrow as pa

    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _without(values: pa.Array, empty: Flags) -> pa.Array:
    """Return the values with some cells left empty; what stood there is in no buffer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(empty), pa.scalar(None, values.type), values)


def _scaled(steps: Integers, step: Fraction) -> pa.Array:
    """Return steps * step exactly: 64-bit integers for step one, else decimals."""
    import pyarrow as pa

    found = _wrapped(pa.int64(), steps)
    if step == 1:
        return found
    import pyarrow.compute as pc

    digits = decimal_digits(step) or 0
    unit = int(step * 10**digits).to_bytes(16, "little", signed=True)
    kind = pa.decimal128(WIDEST_STEP, digits)
    factor = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(unit)])[0]
    return pc.multiply(found.cast(pa.decimal128(20, 0)), factor).cast(pa.decimal128(38, digits))


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with nothing in the file that the noised table does not say."""
    import pyarrow.parquet as pq

    pq.write_table(
        table,
        path,
        compression="zstd",
        write_statistics=False,
        store_schema=False,
        row_group_size=ROW_GROUP,
    )
