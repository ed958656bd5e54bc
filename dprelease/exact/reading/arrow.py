"""Convert Arrow columns to types that the engine reads without failures that depend on values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dprelease.exact.reading.cell_texts import texts_of

if TYPE_CHECKING:
    import pyarrow as pa

STORED_EXTENSIONS = ("arrow.json", "arrow.bool8")
"""Names of extension types that are read as their storage type."""

TICKS = {"s": 1, "ms": 1000}

ASCII = 128
"""Each byte below this number is one character."""


def to_readable_type(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """Return a column with the same values in a type that the engine reads; None if there is none.

    The new type depends only on the type of the column, and the engine can read every value of it.
    """
    import pyarrow as pa

    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _extension_storage(column)
    if pa.types.is_dictionary(kind) and not _is_text(kind.value_type):
        return to_readable_type(decode_dictionary(column))
    for applies, change in _conversions():
        if applies(kind):
            return change(column)
    return column if _is_engine_type(kind) else None


def _conversions() -> tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...]:
    """Return pairs of functions: whether a conversion applies to a type, and the conversion."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    return (
        (types.is_null, lambda column: pa.nulls(len(column), pa.string())),
        (types.is_run_end_encoded, lambda column: to_readable_type(pc.run_end_decode(column))),
        (types.is_float16, _widen_halves),
        (is_unsupported_decimal, _decimals_as_texts),
        # Not to days: Arrow fails at a value of this type that has a time of day.
        (types.is_date64, lambda column: column.cast(pa.int64()).cast(pa.timestamp("ms"))),
        (_is_coarse_timestamp, _to_microseconds),
        (_is_text, lambda column: _copy_views(_remove_invalid_texts(column))),
        (types.is_dictionary, lambda column: _copy_views(_remove_invalid_texts(column))),
    )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_engine_type(kind: pa.DataType) -> bool:
    """Return whether the engine has a type; `statements.meanings` decides whether to use it."""
    import pyarrow as pa

    types = pa.types
    known = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_date,
        types.is_timestamp,
    )
    return any(is_it(kind) for is_it in known)


def _widen_halves(halves: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return 16-bit floats as 32-bit floats, each with the same shortest decimal."""
    import pyarrow as pa

    chunks = halves.chunks if isinstance(halves, pa.ChunkedArray) else [halves]
    held = [chunk.to_numpy(zero_copy_only=False).astype(np.float16) for chunk in chunks]
    places = np.concatenate([np.empty(0, np.float16), *held]).view(np.uint16)
    return pa.array(_decimals_of_halves()[places])


@cache
def _decimals_of_halves() -> NDArray[np.float32]:
    """Return the shortest decimal of each 16-bit float, as 32-bit floats."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return np.array([float(str(half)) for half in halves], dtype=np.float32)


def _decimals_as_texts(decimals: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return decimals as texts, as decimals among Python objects are; a cast to floats would round.

    The number of digits of a decimal type is often that of the largest value, so one row would
    decide how all other rows are read.
    """
    import pyarrow as pa

    return pa.array(texts_of(decimals.to_pylist()), pa.string())


def is_unsupported_decimal(kind: pa.DataType) -> bool:
    """Return whether the engine has no type for a decimal."""
    import pyarrow as pa

    if not pa.types.is_decimal(kind):
        return False
    return bool(pa.types.is_decimal256(kind) or not 0 <= kind.scale <= kind.precision)


def _is_coarse_timestamp(kind: pa.DataType) -> bool:
    """Return whether a type has timestamps with time zone whose unit must be converted."""
    import pyarrow as pa

    return pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in TICKS


def _to_microseconds(instants: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return timestamps with a time zone in microseconds; too large values become missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ticks = instants.cast(pa.int64())
    factor = 10**6 // TICKS[instants.type.unit]
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(ticks, limit), pc.greater_equal(ticks, -limit))
    inside = pc.if_else(fits, ticks, pa.scalar(None, pa.int64()))
    return pc.multiply(inside, factor).cast(pa.timestamp("us", instants.type.tz))


def _extension_storage(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """Return the values stored under an extension type; None if the type is not known."""
    import pyarrow as pa

    if column.type.extension_name == "arrow.uuid":
        return column
    if column.type.extension_name not in STORED_EXTENSIONS:
        return None
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    storage = [chunk.storage for chunk in chunks]
    return to_readable_type(pa.chunked_array(storage, type=column.type.storage_type))


def decode_dictionary(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a dictionary column as a plain column."""
    import pyarrow as pa

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    values = [chunk.dictionary.take(chunk.indices) for chunk in chunks]
    return pa.chunked_array(values, type=column.type.value_type)


def _remove_invalid_texts(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts with invalid UTF-8 replaced by missing values, because functions fail at it."""
    import pyarrow as pa

    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    if all(map(_is_unicode, chunks)):
        return texts
    if pa.types.is_dictionary(texts.type):
        return _remove_invalid_texts(decode_dictionary(texts))
    views = pa.types.is_string_view(texts.type)
    wide = pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary()
    held = texts.cast(pa.binary_view() if views else wide)
    return pa.array(map(_decode_or_none, held.to_pylist()), type=texts.type)


def _copy_views(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts as large strings if they are views.

    PyArrow before version 25 passes views that crash the engine.
    """
    import pyarrow as pa

    kind = texts.type
    if pa.types.is_string_view(kind):
        return texts.cast(pa.large_string())
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return texts.cast(pa.dictionary(kind.index_type, pa.large_string(), kind.ordered))
    return texts


def _is_unicode(chunk: pa.Array) -> bool:
    """Return whether all texts of a chunk are valid UTF-8."""
    import pyarrow as pa

    texts = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
    if not pa.types.is_string_view(texts.type) and _is_ascii(texts):
        return True
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False  # the message may quote a text
    return True


def _is_ascii(texts: pa.Array) -> bool:
    """Return whether texts are ASCII, from all their bytes at once."""
    import pyarrow as pa

    _, places, held = texts.buffers()
    if len(texts) == 0 or places is None or held is None:
        return True
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(places, kind)[[texts.offset, texts.offset + len(texts)]]
    return bool(np.frombuffer(held, np.uint8)[slice(*ends)].max(initial=0) < ASCII)


def _decode_or_none(held: bytes | None) -> str | None:
    """Return the text of these bytes; None if they are missing or not valid UTF-8."""
    try:
        return None if held is None else held.decode()
    except UnicodeDecodeError:
        return None
