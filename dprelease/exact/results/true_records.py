"""Hold true records in memory; only their shape can be printed, never a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dprelease.query.grouping.group_keys import Key
from dprelease.statements.record_statements import CompiledRecords

if TYPE_CHECKING:
    import pyarrow as pa

Integers = NDArray[np.int64]


class ExactRecords:
    """True records: for each column one vector of integers, in steps or positions of public values.

    The values can't be printed, iterated, copied or pickled. Only `noise/noised_vectors.py` reads
    them.
    """

    __slots__ = ("_vectors", "name", "size")

    def __init__(self, name: str, size: int, vectors: dict[str, Integers]) -> None:
        self.name, self.size = name, size
        self._vectors = vectors

    def reorder(self, order: NDArray[np.intp]) -> None:
        """Put the records into another order: record number `order[i]` becomes the i-th record."""
        for column, vector in self._vectors.items():
            self._vectors[column] = vector[order]

    def vector(self, column: str) -> Integers:
        """Return the (size,) true integers of one column."""
        return self._vectors[column]

    def __repr__(self) -> str:
        return f"<ExactRecords {self.name}: {self.size} records, {len(self._vectors)} columns>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true records can't be pickled or copied")


def exact_records(name: str, compiled: CompiledRecords, read: pa.Table) -> ExactRecords:
    """Return the records that a compiled SELECT returned, with texts replaced by positions.

    The position of a text is that of the public value that equals it.
    """
    vectors = {}
    for i, column in enumerate(compiled.columns):
        held = read.column(i)
        key = compiled.texts.get(i)
        vectors[column] = _to_integers(held) if key is None else _positions(held, key)
    return ExactRecords(name, read.num_rows, vectors)


def _to_integers(held: pa.ChunkedArray) -> Integers:
    """Return a column of integers, none of which is missing, as a NumPy vector."""
    import pyarrow.compute as pc

    whole: Any = pc.fill_null(held, 0)  # none is missing; a NULL must not become a float
    return np.ascontiguousarray(whole.to_numpy(), dtype=np.int64)


def _positions(held: pa.ChunkedArray, key: Key) -> Integers:
    """Return, for each text of a column, the position of the equal public value of a key.

    Missing texts, and texts that are no public value, get the positions that the key has for them.
    Arrow looks up each text once, in a hash table of the public values.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.array([str(value) for value in key.values], held.type)
    place = pc.index_in(held, value_set=values)
    places = pc.if_else(pc.is_null(held), key.nulls, pc.fill_null(place, key.others))
    return np.ascontiguousarray(places.to_numpy(), dtype=np.int64)
