"""Compact sequences of many integer positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

AT_ONCE = 1 << 16
"""Number of positions that are converted to Python integers at a time."""


class Places(Sequence[int]):
    """An immutable sequence of positions, which are integers from 0 up.

    The hash is computed once, and sequences with equal positions are equal. An ascending sequence
    with many repeats, such as the areas that contain other areas, stores each different position
    once, with the index at which its run ends.
    """

    def __init__(self, places: Iterable[int] | NDArray[np.int64]) -> None:
        numbers = places if isinstance(places, np.ndarray) else np.fromiter(places, np.int64)
        stored = np.array(numbers, np.int64)
        moved = np.diff(stored)
        ends = np.append(np.flatnonzero(moved), len(stored) - 1) + 1
        self._ends: NDArray[np.int64] | None = None
        if len(stored) and (moved >= 0).all() and 2 * len(ends) <= len(stored):
            stored, self._ends = stored[ends - 1], ends
            self._ends.flags.writeable = False
        stored.flags.writeable = False
        self._held = stored

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        """Return one position, or the positions of a slice."""
        if isinstance(at, slice):
            found: list[int] = self.numbers[at].tolist()
            return found
        if self._ends is None:
            return int(self._held[at])
        place = range(len(self))[at]
        return int(self._held[np.searchsorted(self._ends, place, side="right")])

    def __len__(self) -> int:
        return len(self._held) if self._ends is None else int(self._ends[-1])

    def __iter__(self) -> Iterator[int]:
        numbers = self.numbers
        for first in range(0, len(numbers), AT_ONCE):
            yield from numbers[first : first + AT_ONCE].tolist()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Places) and self._bytes == other._bytes)

    def __hash__(self) -> int:
        """Return a hash that depends on the positions alone."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._bytes)

    @property
    def _bytes(self) -> tuple[bytes, bytes]:
        """Return the stored arrays as bytes."""
        ends = b"" if self._ends is None else self._ends.tobytes()
        return self._held.tobytes(), ends

    @cached_property
    def most_occurrences(self) -> int:
        """The number of occurrences of the most frequent position."""
        if self._ends is not None:
            return int(np.diff(self._ends, prepend=0).max())
        return int(np.unique(self._held, return_counts=True)[1].max(initial=0))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The positions as an array, which callers must not change."""
        if self._ends is None:
            return self._held
        found = np.repeat(self._held, np.diff(self._ends, prepend=0))
        found.flags.writeable = False
        return found

    def counts_below(self, limits: ArrayLike) -> NDArray[np.int64]:
        """Return how many of the ascending positions are below each limit."""
        found = np.searchsorted(self._held, limits)
        if self._ends is None:
            return found.astype(np.int64)
        return np.concatenate(([0], self._ends))[found]
