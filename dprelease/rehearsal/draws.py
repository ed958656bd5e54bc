"""Draw synthetic values from random words, whole vectors at a time.

These draws determine only synthetic people, and do not affect the privacy of real people. So 53
bits of a uniform number suffice, and floats may be rounded.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers


class Draws:
    """Draws vectors of random values from one stream of random 64-bit words."""

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def uniform(self, n: int) -> Floats:
        """Return (n,) numbers from [0, 1)."""
        return (self._bits.words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def happens(self, n: int, chance: float) -> Flags:
        """Return (n,) booleans that are true with this probability."""
        return self.uniform(n) < chance

    def whole(self, n: int, low: int, high: int) -> Integers:
        """Return (n,) integers from `low` to `high`, which are within 2^62."""
        return low + (self.uniform(n) * (high - low + 1)).astype(np.int64)

    def of_weights(self, n: int, weights: Floats) -> Integers:
        """Return (n,) indices in `weights`, with probabilities proportional to the weights."""
        return self.of_parts(
            np.zeros(n, dtype=np.int64), weights, np.zeros(len(weights), dtype=np.int64)
        )

    def of_parts(self, areas: Integers, weights: Floats, area_of: Integers) -> Integers:
        """Return an index in `weights` for each area: a random one in that area, by weight.

        `area_of` has the area of each index, in ascending order. Every area in `areas` must have an
        index with a positive weight.
        """
        upto = np.concatenate(([0.0], np.cumsum(weights)))
        numbers = np.arange(int(areas.max(initial=0)) + 2)
        first = np.searchsorted(area_of, numbers)
        low, high = upto[first[areas]], upto[first[areas + 1]]
        drawn = low + self.uniform(len(areas)) * (high - low)
        places: Integers = np.searchsorted(upto, drawn, side="right") - 1
        # By rounding, a draw at the end of an interval may give the neighbouring index.
        return np.clip(places, first[areas], np.maximum(first[areas + 1] - 1, 0))

    def numbers_up_to(self, n: int, most: int, beyond: float) -> Integers:
        """Return (n,) numbers from 1 to `most`, small ones most often.

        The share `beyond` of the numbers is above `most`, up to twice `most`. The logarithm of the
        other numbers is uniform, so every order of magnitude occurs.
        """
        drawn = np.exp(self.uniform(n) * math.log(most + 1)).astype(np.int64)
        numbers = np.clip(drawn, 1, most)
        above = np.flatnonzero(self.happens(n, beyond))
        numbers[above] = most + 1 + self.whole(len(above), 0, most - 1)
        return numbers


def zipf(n: int, power: float) -> Floats:
    """Return (n,) weights by Zipf's law: the k-th weight is k^-power."""
    return np.arange(1, n + 1, dtype=np.float64) ** -power
