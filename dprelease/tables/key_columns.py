"""Key columns of consecutive cells: declared values, whatever the data is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dprelease.query.keys import Key
from dprelease.query.resolve import Query
from dprelease.tables.arrays import key_values, taken, wrapped

if TYPE_CHECKING:
    import pyarrow as pa


class KeyArrays:
    """The key columns of a query, a range of its cells at a time."""

    def __init__(self, query: Query) -> None:
        self._private: dict[str, pa.Array] | None = None
        self._held: list[tuple[Key, int, pa.Array | None]] = []
        if query.private is not None:
            self._private = {key.column: key_values(key) for key in query.key_columns}
            return
        for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
            # A range may be as long as the table: it is counted, not held.
            held = None if isinstance(key.values, range) else key_values(key)
            self._held.append((key, stride, held))

    def of(self, first: int, last: int) -> dict[str, pa.Array]:
        """Return the key columns of cells `first` to `last` - 1, by name."""
        import pyarrow as pa

        if self._private is not None:
            return {name: array[first:last] for name, array in self._private.items()}
        arrays = {}
        for key, stride, held in self._held:
            codes = np.arange(first, last) // stride % len(key.values)
            if held is None:
                codes += key.whole[0]
            arrays[key.column] = wrapped(pa.int64(), codes) if held is None else taken(held, codes)
        return arrays
