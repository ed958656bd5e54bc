"""Convert numbers between Arrow and NumPy without loading pandas, which Arrow's functions load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def to_numpy(array: pa.Array) -> NDArray[Any]:
    """Return an Arrow array that has no missing value as a NumPy array, without copying it."""
    return np.from_dlpack(array)


def mask_and_numbers(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two NumPy arrays for an Arrow array of integers: a mask, and the integers.

    The mask is 1 where the array has a value, and 0 where the value is missing. The integer is 0
    where the value is missing.
    """
    # DLPack refuses booleans of one bit, so the mask is cast before it is passed.
    mask = to_numpy(array.is_valid().cast(pa.int64()))
    return mask, to_numpy_ignoring_nulls(array).astype(np.int64) * mask


def to_numpy_ignoring_nulls(array: pa.Array) -> NDArray[Any]:
    """Return an Arrow array as a NumPy array, without copying it.

    Where a value is missing, the NumPy array has an arbitrary number.
    """
    # Arrow's own function creates a scalar, for which it loads pandas.
    buffers = [None, array.buffers()[1]]
    # The mask of missing values is left out as well: DLPack refuses an array that has any.
    return to_numpy(pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset))


def validity_mask(array: pa.Array) -> NDArray[np.uint8] | None:
    """Return an array that is 1 where a value exists, and 0 where it is missing.

    The function returns None if no value is missing.
    """
    if not array.null_count:
        return None
    bits = np.frombuffer(array.buffers()[0], dtype=np.uint8)
    # A slice shares the buffers of the whole array, so its bits begin at its offset.
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :]


def to_arrow_array(numbers: NDArray[np.integer[Any]]) -> pa.Array:
    """Return an Arrow array of numbers; no copy is made if the numbers are contiguous."""
    # An Arrow buffer is one block of memory: every other number of an array, say, has to be copied.
    contiguous = np.ascontiguousarray(numbers)
    arrow_type = pa.from_numpy_dtype(contiguous.dtype)
    return pa.Array.from_buffers(arrow_type, len(contiguous), [None, pa.py_buffer(contiguous)])


def true_positions(mask: pa.BooleanArray) -> NDArray[Any]:
    """Return the positions at which a mask is true."""
    import pyarrow.compute as pc  # slow to import

    return to_numpy(pc.indices_nonzero(mask))
