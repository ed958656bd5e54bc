"""Key columns of consecutive cells: declared values, whatever the data is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.query.keys import Key, KeySpace
from dprelease.query.resolve import Query
from dprelease.tables.arrays import key_values, taken, wrapped

if TYPE_CHECKING:
    import pyarrow as pa


KEY_TYPES = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}


def key_types(keys: Sequence[Key]) -> list[tuple[str, str]]:
    """Return name and Arrow type of every key column."""
    return [(key.column, KEY_TYPES[key.kind]) for key in keys]


class PublicKeys:
    """The key columns of a space of cells, some of its cells at a time."""

    def __init__(self, keys: KeySpace) -> None:
        # A range may be as long as the table: it is counted, not held.
        self._held: list[tuple[Key, int, pa.Array | None]] = [
            (key, stride, None if isinstance(key.values, range) else key_values(key))
            for key, stride in zip(keys.keys, keys.strides, strict=True)
        ]

    def at(self, cells: Integers) -> dict[str, pa.Array]:
        """Return the key columns of cells, by name."""
        return {
            key.column: _column(key, cells // stride % len(key.values), values)
            for key, stride, values in self._held
        }

    def of(self, first: int, last: int) -> dict[str, pa.Array]:
        """Return those of cells `first` to `last` - 1, whose numbers no column waits for."""
        return {
            key.column: _column(key, np.arange(first, last) // stride % len(key.values), values)
            for key, stride, values in self._held
        }


def _column(key: Key, codes: Integers, values: pa.Array | None) -> pa.Array:
    import pyarrow as pa

    if values is not None:
        return taken(values, codes)
    codes += key.whole[0]
    return wrapped(pa.int64(), codes)


class KeyArrays:
    """The key columns of a query, a range of its cells at a time."""

    def __init__(self, query: Query) -> None:
        self._private: dict[str, pa.Array] | None = None
        self._public = PublicKeys(query.keys if query.private is None else KeySpace(()))
        if query.private is not None:
            self._private = {key.column: key_values(key) for key in query.key_columns}

    def of(self, first: int, last: int) -> dict[str, pa.Array]:
        """Return the key columns of cells `first` to `last` - 1, by name."""
        if self._private is not None:
            return {name: array[first:last] for name, array in self._private.items()}
        return self._public.of(first, last)
