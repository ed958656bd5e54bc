"""Key columns of consecutive cells: declared values, which do not depend on the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dprelease.numerics.lattice import Integers
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.resolve import Query
from dprelease.tables.arrays import boolean_array, key_values, take_values, wrap_array

if TYPE_CHECKING:
    import pyarrow as pa


KEY_TYPES = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}

_LEAST_COPIED = 1 << 12
"""Minimum number of codes that are copied at a time."""


def key_types(keys: Sequence[Key]) -> list[tuple[str, str]]:
    """Return the name and the Arrow type of every key column."""
    return [(key.column, KEY_TYPES[key.kind]) for key in keys]


class PublicKeys:
    """Creates the key columns of a key space, for any range of cells."""

    def __init__(self, keys: KeySpace) -> None:
        # An integer or date key may have as many values as the table has cells: compute them.
        self._held: list[tuple[Key, int, pa.Array | None]] = [
            (key, stride, None if isinstance(key.values, range) else key_values(key))
            for key, stride in zip(keys.keys, keys.strides, strict=True)
        ]

    def at(self, cells: Integers) -> dict[str, pa.Array]:
        """Return the key columns of the given cells, by name."""
        return {
            key.column: _key_array(key, cells // stride % len(key.values), values)
            for key, stride, values in self._held
        }

    def of(self, first: int, last: int) -> dict[str, pa.Array]:
        """Return the key columns of cells `first` to `last` - 1, by name."""
        return {
            key.column: _key_array(key, np.arange(first, last) // stride % len(key.values), values)
            for key, stride, values in self._held
        }

    def dictionary_columns(self, first: int, last: int) -> dict[str, pa.Array]:
        """Return the same columns as `of`, with dictionary-encoded texts.

        The dictionary has the texts in the order of their first occurrence, so that a file gets
        the same bytes as with the columns of `of`.
        """
        return {
            key.column: _dictionary_array(key, stride, values, first, last)
            for key, stride, values in self._held
        }


def _key_array(key: Key, codes: Integers | NDArray[np.int32], values: pa.Array | None) -> pa.Array:
    import pyarrow as pa

    if key.kind == "boolean":
        return boolean_array(codes == 1)  # the codes of false and true are 0 and 1
    if values is not None:
        return take_values(values, codes)
    return wrap_array(pa.int64(), codes.astype(np.int64, copy=False) + key.whole[0])


def _dictionary_array(
    key: Key, stride: int, values: pa.Array | None, first: int, last: int
) -> pa.Array:
    """Return the values of a key for a range of cells; texts as a dictionary array."""
    import pyarrow as pa

    begun, size = first // stride, len(key.values)
    if values is None or key.kind != "text":
        return _key_array(key, (_value_offsets(first, last, stride) + begun) % size, values)
    there = (last - 1) // stride - begun + 1 if last > first else 0  # number of consecutive values
    rounds = there > size
    places = (
        _repeating_offsets(first, last, stride, size)
        if rounds
        else _value_offsets(first, last, stride)
    )
    listed = take_values(values, (begun + np.arange(min(there, size))) % size)
    codes = wrap_array(pa.int32(), places.astype(np.int32, copy=False))
    return pa.DictionaryArray.from_arrays(codes, listed)


def _value_offsets(first: int, last: int, stride: int) -> Integers | NDArray[np.int32]:
    """Return, for each cell, the number of key values from the first cell's to this cell's."""
    within = first % stride
    if within + last - first < 1 << 31:  # 32-bit integers suffice
        return np.arange(within, within + last - first, dtype=np.int32) // np.int32(stride)
    return np.arange(within, within + last - first) // stride


def _repeating_offsets(
    first: int, last: int, stride: int, size: int
) -> Integers | NDArray[np.int32]:
    """Return the same offsets modulo `size`, the number of values, after which they repeat."""
    once = stride * size
    rounds = max(1, _LEAST_COPIED // once)  # short periods are copied several at a time
    end = min(last, first + rounds * once)
    one = _value_offsets(first, end, stride) % size
    return np.concatenate([one] * -(-(last - first) // len(one)))[: last - first]


class KeyArrays:
    """Creates the key columns of a query, public or private, for any range of cells.

    `coded` says that texts are dictionary-encoded, for files.
    """

    def __init__(self, query: Query, *, coded: bool = False) -> None:
        self._coded = coded
        self._private: dict[str, pa.Array] | None = None
        self._public = PublicKeys(query.keys if query.private is None else KeySpace(()))
        if query.private is not None:
            self._private = {key.column: key_values(key) for key in query.key_columns}

    def of(self, first: int, last: int) -> dict[str, pa.Array]:
        """Return the key columns of cells `first` to `last` - 1, by name."""
        if self._private is not None:
            # A slice shares the memory of all keys. These are published themselves, so nothing
            # hidden is shared.
            return {name: array[first:last] for name, array in self._private.items()}
        if self._coded:
            return self._public.dictionary_columns(first, last)
        return self._public.of(first, last)
