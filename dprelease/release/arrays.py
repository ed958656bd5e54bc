"""Arrow arrays from plain values; nothing here imports pandas."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.rounding import decimal_digits
from dprelease.query.keys import Key

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST_STEP = 17
"""Digits of a step: with 20 digits of a 64-bit number they fill a 128-bit decimal."""


def key_values(key: Key) -> pa.Array:
    """Return the declared values of a key, in order."""
    import pyarrow as pa

    if key.kind == "text":
        return texts([str(value) for value in key.values])
    if key.kind == "date":
        epoch = date(1970, 1, 1)
        days = [(value - epoch).days for value in key.values if isinstance(value, date)]
        return wrapped(pa.date32(), np.array(days, dtype=np.int32))
    whole = wrapped(pa.int64(), np.array([int(value) for value in key.values]))  # type: ignore[arg-type]
    return whole if key.kind == "integer" else whole.cast(pa.bool_())


def wrapped(kind: pa.DataType, values: NDArray[Any]) -> pa.Array:
    """Return an Arrow array over a NumPy array of the same width.

    Not `pa.array`: it imports pandas, which would cost every run more than its own work.
    """
    import pyarrow as pa

    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def texts(values: list[str]) -> pa.Array:
    import pyarrow as pa

    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def without(values: pa.Array, empty: Flags) -> pa.Array:
    """Return the values with some cells left empty; what stood there is in no buffer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(empty), pa.scalar(None, values.type), values)


def scaled(steps: Integers, step: Fraction) -> pa.Array:
    """Return steps * step exactly: 64-bit integers for step one, else decimals."""
    import pyarrow as pa

    found = wrapped(pa.int64(), steps)
    if step == 1:
        return found
    import pyarrow.compute as pc

    digits = decimal_digits(step) or 0
    unit = int(step * 10**digits).to_bytes(16, "little", signed=True)
    kind = pa.decimal128(WIDEST_STEP, digits)
    factor = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(unit)])[0]
    return pc.multiply(found.cast(pa.decimal128(20, 0)), factor).cast(pa.decimal128(38, digits))


def kind_of(step: Fraction | None) -> str:
    """Return the Arrow type of values on a lattice, or of fractions."""
    if step is None:
        return "double"
    return "int64" if step == 1 else f"decimal128(38, {decimal_digits(step) or 0})"


def fractions(values: Floats) -> pa.Array:
    """Return doubles, null where NaN."""
    import pyarrow as pa

    found = wrapped(pa.float64(), np.ascontiguousarray(values))
    unknown = ~np.isfinite(values)
    return without(found, unknown) if unknown.any() else found
