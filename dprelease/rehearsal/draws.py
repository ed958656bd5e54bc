"""Draw vectors of random numbers for synthetic values from random 64-bit words.

These random numbers determine only synthetic people, and do not affect the privacy of real people.
For this reason uniform numbers have only 53 random bits, and floats may be rounded.
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
        """Return (n,) uniform numbers from [0, 1)."""
        return (self._bits.words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def bernoulli(self, n: int, probability: float) -> Flags:
        """Return (n,) independent booleans, each of which is true with this probability."""
        return self.uniform(n) < probability

    def integers(self, n: int, low: int, high: int) -> Integers:
        """Return (n,) uniform integers from `low` to `high`, whose magnitudes are at most 2^62."""
        return low + (self.uniform(n) * (high - low + 1)).astype(np.int64)

    def weighted_indices(self, n: int, weights: Floats) -> Integers:
        """Return (n,) indices of `weights`, with probabilities proportional to the weights."""
        return self.weighted_indices_in_areas(
            np.zeros(n, dtype=np.int64), weights, np.zeros(len(weights), dtype=np.int64)
        )

    def weighted_indices_in_areas(
        self, areas: Integers, weights: Floats, area_of: Integers
    ) -> Integers:
        """Return, for each area in `areas`, a random index of `weights` that lies in this area.

        The probabilities of the indices of an area are proportional to their weights. `area_of` has
        the area of each index, in ascending order. Every area in `areas` must have an index with a
        positive weight.
        """
        upto = np.concatenate(([0.0], np.cumsum(weights)))
        numbers = np.arange(int(areas.max(initial=0)) + 2)
        first = np.searchsorted(area_of, numbers)
        low, high = upto[first[areas]], upto[first[areas + 1]]
        drawn = low + self.uniform(len(areas)) * (high - low)
        indices: Integers = np.searchsorted(upto, drawn, side="right") - 1
        # A number that was rounded at the end of an area may belong to the next area's index.
        return np.clip(indices, first[areas], np.maximum(first[areas + 1] - 1, 0))

    def log_uniform_integers(self, n: int, most: int, share_above: float) -> Integers:
        """Return (n,) integers from 1 to `most`, except for a share of larger integers.

        The logarithms of the integers are uniform, so that every order of magnitude occurs equally
        often. The share `share_above` of the integers is larger than `most`, and at most twice
        `most`.
        """
        drawn = np.exp(self.uniform(n) * math.log(most + 1)).astype(np.int64)
        numbers = np.clip(drawn, 1, most)
        above = np.flatnonzero(self.bernoulli(n, share_above))
        numbers[above] = most + 1 + self.integers(len(above), 0, most - 1)
        return numbers


def zipf_weights(n: int, power: float) -> Floats:
    """Return the (n,) weights of Zipf's law, of which the k-th is k^-power."""
    return np.arange(1, n + 1, dtype=np.float64) ** -power
