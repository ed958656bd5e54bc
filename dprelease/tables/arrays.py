"""Create Arrow arrays from plain values, without importing pandas.

For small tables `pyarrow.compute` is not imported either, because the import takes longer than the
conversion itself. `Array.take` and `Array.cast` would import it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.rounding import decimal_digits
from dprelease.query.grouping.group_keys import Key
from dprelease.schema.number_bounds import number_of_day

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST_STEP = 17
"""Maximum number of digits of a step: with a 64-bit integer of 20 digits, 37 digits."""

FEW_VALUES = 1 << 16
"""The number of values from which on it pays to import Arrow's compute functions."""

TEXTS_AT_ONCE = 1 << 16
"""Number of texts that are converted from Python objects at a time."""

COMPUTE_MODULE = "pyarrow.compute"
"""The module of Arrow's compute functions; if it is already loaded, it is also used for few values.
"""


def key_values(key: Key) -> pa.Array:
    """Return the declared values of a key, in order."""
    import pyarrow as pa

    if key.kind == "text":
        return text_array(key.values)
    if key.kind == "date":
        return day_array(np.array([number_of_day(value) for value in key.days], dtype=np.int64))
    whole = np.array(key.whole, dtype=np.int64)
    return wrap_array(pa.int64(), whole) if key.kind == "integer" else _booleans(whole)


def day_array(days: Integers) -> pa.Array:
    """Return an Arrow array of dates from their numbers of days since 1970-01-01."""
    import pyarrow as pa

    return wrap_array(pa.date32(), days.astype(np.int32))


def second_array(seconds: Integers) -> pa.Array:
    """Return an Arrow array of timestamps from their numbers of seconds since 1970-01-01."""
    import pyarrow as pa

    return wrap_array(pa.timestamp("us"), seconds * 1_000_000)


def take_values(values: pa.Array, places: Integers | NDArray[np.int32]) -> pa.Array:
    """Return the values of an array of `key_values` at these positions."""
    import pyarrow as pa

    kind = values.type
    if kind == pa.bool_():
        bits = np.frombuffer(values.buffers()[1], dtype=np.uint8)
        return _booleans(np.unpackbits(bits, bitorder="little")[places])
    if kind != pa.string():
        numbers = np.frombuffer(values.buffers()[1], dtype=f"i{kind.bit_width // 8}")
        return wrap_array(kind, numbers[places])
    if max(len(places), len(values)) >= FEW_VALUES or COMPUTE_MODULE in sys.modules:
        return values.take(wrap_array(pa.int64(), places.astype(np.int64, copy=False)))
    ends, raw = np.frombuffer(values.buffers()[1], dtype=np.int32), values.buffers()[2].to_pybytes()
    known = [raw[start:end] for start, end in pairwise(ends.tolist())]
    joined = b"".join([known[place] for place in places.tolist()])
    return _texts(np.diff(ends)[places], joined)


def wrap_array(kind: pa.DataType, values: NDArray[Any]) -> pa.Array:
    """Return an Arrow array that shares the memory of a NumPy array of the same width.

    `pa.array` would import pandas, which takes longer than everything else that a small run does.
    """
    import pyarrow as pa

    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _booleans(values: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def boolean_array(values: Flags) -> pa.Array:
    """Return an Arrow array of booleans."""
    return _booleans(values.astype(np.bool_, copy=False))


def text_array(values: Sequence[object]) -> pa.Array:
    """Return an Arrow array of values as texts, converted in batches to save memory."""
    lengths, joined = np.zeros(len(values), np.int64), []
    for first in range(0, len(values), TEXTS_AT_ONCE):
        encoded = [str(value).encode() for value in values[first : first + TEXTS_AT_ONCE]]
        lengths[first : first + len(encoded)] = [len(text) for text in encoded]
        joined.append(b"".join(encoded))
    return _texts(lengths, b"".join(joined))


def _texts(lengths: Integers | NDArray[np.int32], joined: bytes) -> pa.Array:
    import pyarrow as pa

    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(joined)]
    )


def with_nulls(values: pa.Array, empty: Flags) -> pa.Array:
    """Return numbers in which some cells are null; the buffers don't contain the removed values."""
    import pyarrow as pa

    raw = np.frombuffer(values.buffers()[1], dtype=np.uint8)
    raw = raw.reshape(len(values), values.type.bit_width // 8)
    # A null only hides its value: the bytes below it would be written to the file.
    left = np.where(empty[:, np.newaxis], np.uint8(0), raw)
    buffers = [_booleans(~empty).buffers()[1], pa.py_buffer(left)]
    return pa.Array.from_buffers(values.type, len(values), buffers)


def scale_steps(steps: Integers, step: Fraction) -> pa.Array:
    """Return the exact products steps * step: 64-bit integers if the step is 1, else decimals."""
    import pyarrow as pa

    integers = wrap_array(pa.int64(), steps)
    if step == 1:
        return integers
    digits = decimal_digits(step) or 0
    unit = int(step * 10**digits)
    if len(steps) < FEW_VALUES:
        return _decimals([k * unit for k in steps.tolist()], pa.decimal128(38, digits))
    import pyarrow.compute as pc

    factor = _decimals([unit], pa.decimal128(WIDEST_STEP, digits))[0]
    # Arrow adds one digit to the sum of both precisions, so 20 and 17 digits are the most that fit
    # 38.
    return pc.multiply(integers.cast(pa.decimal128(20, 0)), factor).cast(pa.decimal128(38, digits))


def _decimals(values: list[int], kind: pa.DataType) -> pa.Array:
    """Return the Arrow array of decimals with these unscaled integers."""
    import pyarrow as pa

    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(raw)])


def arrow_type_of_steps(step: Fraction | None) -> str:
    """Return the Arrow type of multiples of a step, or of fractions if there is no step."""
    if step is None:
        return "double"
    return "int64" if step == 1 else f"decimal128(38, {decimal_digits(step) or 0})"


def float_array(values: Floats) -> pa.Array:
    """Return an Arrow array of doubles, which is null where a number is NaN."""
    import pyarrow as pa

    doubles = wrap_array(pa.float64(), np.ascontiguousarray(values))
    # Infinities as well: readers of other languages may take them for large numbers.
    unknown = ~np.isfinite(values)
    return with_nulls(doubles, unknown) if unknown.any() else doubles
