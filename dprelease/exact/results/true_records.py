"""True records in memory; only their shape can be printed, never a value."""

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
    """One vector of true integers for each column: steps, or positions of public values.

    It can't be printed, iterated, copied or pickled; `noise/noised_records.py` is its only reader.
    """

    __slots__ = ("_vectors", "name", "size")

    def __init__(self, name: str, size: int, vectors: dict[str, Integers]) -> None:
        self.name, self.size = name, size
        self._vectors = vectors

    def reorder(self, order: NDArray[np.intp]) -> None:
        """Put the records into another order: the one with number order[i] becomes the i-th."""
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
    """Return the records from a compiled SELECT, with texts as positions of their values."""
    vectors = {}
    for i, column in enumerate(compiled.columns):
        held = read.column(i)
        key = compiled.texts.get(i)
        vectors[column] = _whole(held) if key is None else _places(held, key)
    return ExactRecords(name, read.num_rows, vectors)


def _whole(held: pa.ChunkedArray) -> Integers:
    import pyarrow.compute as pc

    whole: Any = pc.fill_null(held, 0)  # none is missing; a NULL must not become a float
    return np.ascontiguousarray(whole.to_numpy(), dtype=np.int64)


def _places(held: pa.ChunkedArray, key: Key) -> Integers:
    """Return the position of every text: a hash table of public values, one look-up per record."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.array([str(value) for value in key.values], held.type)
    place = pc.index_in(held, value_set=values)
    places = pc.if_else(pc.is_null(held), key.nulls, pc.fill_null(place, key.others))
    return np.ascontiguousarray(places.to_numpy(), dtype=np.int64)
