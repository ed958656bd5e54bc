"""Convert numbers between Arrow and NumPy without loading pandas, which Arrow's functions load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers_of(array: pa.Array) -> NDArray[Any]:
    """Return the numbers of an Arrow array without missing values; no copy is made."""
    return np.from_dlpack(array)


def mask_and_numbers(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a mask of the values of an array of integers, and the values, 0 for missing ones.

    The mask is 1 where the array has a value, and 0 where the value is missing.
    """
    there = numbers_of(array.is_valid().cast(pa.int64()))
    return there, with_any(array).astype(np.int64) * there


def with_any(array: pa.Array) -> NDArray[Any]:
    """Return the numbers of an array, with arbitrary numbers for missing values, without a copy."""
    # Arrow's own function creates a scalar, for which it loads pandas.
    stored = [None, array.buffers()[1]]
    return numbers_of(pa.Array.from_buffers(array.type, len(array), stored, 0, array.offset))


def validity_mask(array: pa.Array) -> NDArray[np.uint8] | None:
    """Return 1 where an array has a value, 0 where it is missing; None if none is missing."""
    if not array.null_count:
        return None
    bits = np.frombuffer(array.buffers()[0], dtype=np.uint8)
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :]


def array_of(numbers: NDArray[np.integer[Any]]) -> pa.Array:
    """Return an Arrow array of numbers; no copy is made if the numbers are contiguous."""
    held = np.ascontiguousarray(numbers)
    kind = pa.from_numpy_dtype(held.dtype)
    return pa.Array.from_buffers(kind, len(held), [None, pa.py_buffer(held)])


def places_of(mask: pa.BooleanArray) -> NDArray[Any]:
    """Return the positions at which a mask is true."""
    import pyarrow.compute as pc  # slow to import

    return numbers_of(pc.indices_nonzero(mask))
