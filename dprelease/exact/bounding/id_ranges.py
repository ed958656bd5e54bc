"""Split rows into ranges of their keys, so that several threads bound them at a time.

A key is the number of an id followed by the hash of a cell. Ranges end where an id ends. The kept
rows of an id depend on its own rows alone, so neither the number of ranges nor their ends can
change a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dprelease.exact.results.true_table import Integers

FEWEST_KEYS = 2**17
"""Minimum number of keys in a range that justifies a thread."""

SAMPLED_KEYS = 2**12
"""Number of keys that are sampled to choose the ends of ranges."""

LARGEST_KEY = 2**63 - 1

Range = tuple[int, int]


def key_ranges(keys: Sequence[Integers], bits: int, threads: int) -> list[Range]:
    """Return ranges, from the first to the last key, with about equal numbers of keys.

    `keys`: the keys, in batches. `bits`: the number of bits of a key after the number of its id. A
    range includes its first key, but not its last one.
    """
    total = sum(map(len, keys))
    parts = min(threads, total // FEWEST_KEYS)
    if parts < 2:
        return [(0, LARGEST_KEY)]
    sample = np.sort(np.concatenate([block[:: max(1, total // SAMPLED_KEYS)] for block in keys]))
    middle = [int(sample[len(sample) * part // parts]) >> bits << bits for part in range(1, parts)]
    ends = sorted({0, *middle, LARGEST_KEY})
    return list(pairwise(ends))


def positions_in_range(keys: Integers, span: Range) -> Integers:
    """Return the positions of the keys in a range."""
    low, high = span
    if span == (0, LARGEST_KEY):
        return np.arange(len(keys))
    return np.flatnonzero((keys >= low) & (keys < high))
