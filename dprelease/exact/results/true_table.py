"""Hold true aggregates; only their shape can be printed, never a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Profile:
    """How often each value occurs in each cell: pairs of cell and value, sorted in that order.

    `starts` (cells + 1,): the pairs of cell c are `starts[c]` to `starts[c + 1]`. `values` and
    `counts`: the value of each pair, and the number of its rows. A profile can't be printed, copied
    or pickled.
    """

    starts: Integers
    values: Integers
    counts: Integers

    @classmethod
    def of(cls, cells: Integers, values: Integers, counts: Integers, size: int) -> Profile:
        """Return the profile of (cell, value, count) triples in any order."""
        order = np.lexsort((values, cells))
        starts: Integers = np.searchsorted(cells[order], np.arange(size + 1)).astype(np.int64)
        return cls(starts, values[order], counts[order])

    def blocks(self, most: int) -> Iterator[tuple[slice, Profile]]:
        """Yield ranges of cells with their profiles, of about `most` pairs or one cell each."""
        first, cells = 0, len(self.starts) - 1
        while first < cells:
            limit = int(self.starts[first]) + most
            last = int(np.searchsorted(self.starts, limit, side="right")) - 1
            last = min(max(last, first + 1), first + most)
            low, high = int(self.starts[first]), int(self.starts[last])
            starts = self.starts[first : last + 1] - low
            yield slice(first, last), Profile(starts, self.values[low:high], self.counts[low:high])
            first = last

    def dense(self, candidates: int) -> Integers:
        """Return (cells, candidates) counts."""
        cells = len(self.starts) - 1
        table = np.zeros((cells, candidates), dtype=np.int64)
        rows = np.repeat(np.arange(cells), np.diff(self.starts))
        table[rows, self.values] = self.counts
        return table

    def __reduce__(self) -> NoReturn:
        raise TypeError("true aggregates can't be pickled or copied")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DenseProfile:
    """Cumulative numbers of rows: for each cell and candidate, the rows up to that candidate.

    The array has the shape (cells, candidates). It is 32 bits wide if that holds the number of all
    rows. A profile can't be printed, copied or pickled.
    """

    upto: NDArray[np.int32 | np.int64]

    @classmethod
    def of(cls, counts: NDArray[Any], *, own: bool = False) -> DenseProfile:
        """Return the profile of (cells, candidates) counts, which are overwritten if `own`."""
        out = counts if own else None
        return cls(np.cumsum(counts, axis=1, dtype=counts.dtype, out=out))

    def pairs(self) -> Profile:
        """Return the profile as the pairs of a cell and a candidate that occur in a row."""
        size, candidates = self.upto.shape
        counts = np.diff(self.upto, axis=1, prepend=0).ravel()
        held = np.flatnonzero(counts)
        starts: Integers = np.searchsorted(held, np.arange(size + 1) * candidates).astype(np.int64)
        return Profile(starts, held % candidates, counts[held].astype(np.int64))

    def __reduce__(self) -> NoReturn:
        raise TypeError("true aggregates can't be pickled or copied")


class VectorBlock(Protocol):
    """A vector of integers, 32 or 64 bits wide, from which ranges of cells can be read."""

    def __getitem__(self, cells: slice, /) -> NDArray[np.int32 | np.int64]:
        """Return the integers of a range of cells."""
        ...


class ExactTable:
    """The true aggregates of a table: for each measurement one vector of integers, by cell.

    Cells are in the order of the keys. The values can't be printed, iterated, copied or pickled;
    only `noise` reads them.
    """

    __slots__ = ("_profiles", "_vectors", "name", "size")

    def __init__(
        self,
        name: str,
        size: int,
        vectors: Mapping[str, VectorBlock],
        profiles: dict[str, Profile | DenseProfile] | None = None,
    ) -> None:
        self.name, self.size = name, size
        self._vectors, self._profiles = vectors, profiles or {}

    def vector(self, measurement: str) -> NDArray[np.int64]:
        """Return the (size,) true integers of one measurement, in steps."""
        return self.block(measurement, slice(None))

    def block(self, measurement: str, cells: slice) -> NDArray[np.int64]:
        """Return the true integers of some cells of one measurement, in steps."""
        return self._vectors[measurement][cells].astype(np.int64, copy=False)

    def profile(self, measurement: str) -> Profile | DenseProfile:
        """Return how often each candidate of one measurement occurs in each cell."""
        return self._profiles[measurement]

    @property
    def is_in_memory(self) -> bool:
        """Return whether all vectors are in memory, so that the engine need not read more."""
        return all(isinstance(vector, np.ndarray) for vector in self._vectors.values())

    def __repr__(self) -> str:
        held = len(self._vectors) + len(self._profiles)
        return f"<ExactTable {self.name}: {self.size} cells, {held} measurements>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true aggregates can't be pickled or copied")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Partitions:
    """The names of partitions, in ascending order, and the number of privacy units in each.

    Even the number of partitions is confidential, so the object can't be printed, copied or
    pickled.
    """

    names: list[str]
    units: Integers

    @classmethod
    def of(cls, names: Sequence[str], units: Integers) -> Self:
        """Return partitions, given in any order, sorted by name.

        Without sorting, the assignment of noise would depend on the order of the rows, and on the
        engine's threads.
        """
        order = sorted(range(len(names)), key=names.__getitem__)
        return cls([names[i] for i in order], units[np.array(order, dtype=np.int64)])

    def __repr__(self) -> str:
        return "<Partitions>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true partitions can't be pickled or copied")
