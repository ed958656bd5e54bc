"""Whole numbers that say where values lie: as short as they can be held, for there may be many."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray


class Places(Sequence[int]):
    """A sequence of places, at least 0: immutable, hashed once, equal to those with the same."""

    def __init__(self, places: Iterable[int]) -> None:
        self._held = array("q", places)

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        """Return one of them, or some."""
        return self._held[at]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._held)

    def __iter__(self) -> Iterator[int]:
        """Yield all of them."""
        return iter(self._held)

    def __eq__(self, other: object) -> bool:
        """Return whether the other holds the same places."""
        return self is other or (isinstance(other, Places) and self._held == other._held)

    def __hash__(self) -> int:
        """Return a number that depends on the places alone."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._held.tobytes())

    @cached_property
    def most_alike(self) -> int:
        """Return how often the most frequent of them stands there."""
        return max(Counter(self._held).values(), default=0)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Return them as an array, which is not to be written to."""
        found = np.frombuffer(self._held, np.int64)
        found.flags.writeable = False
        return found
