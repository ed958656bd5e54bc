"""Bound how far a quantile read from a tree of noised counts may lie from its rank.

A node holds B rows in its left half and A in its right one, noised by x and y. The quantile is a
part p of the node, and a part q of the half that it goes to. Counted in true rows, its position
moves by p y - (q - p) x, q >= p, if it goes left, and by -(1 - p) x + (p - q) y, q <= p, if it goes
right: by (1 - p) |x| + p |y| at most. Such a mean of two draws is nearer to zero than a single draw
(Proschan 1965, for symmetric log-concave distributions), so the reported error of the path through
all levels is one draw for each level, added up. That overestimates it, two to four times on most
columns; q depends on the same noise where counts are that small, which the tests cover. In the last
node any position is a rank that its value holds.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.postprocess.noise_table import table_of

BINS = 2**12


def path_width(mechanism: Mechanism, levels: int, confidence: float) -> int:
    """Return w with P(|sum of `levels` draws| <= w) >= confidence, less than a bin a draw more."""
    miss = 1.0 - confidence
    most = mechanism.half_width(1.0 - miss / (4 * levels))
    if levels == 1 or most == 0:
        return mechanism.half_width(confidence)
    bin_ = -(-(2 * most + 1) // BINS)
    places = np.arange(-(-most // bin_) + 1)
    places = np.concatenate((-places[:0:-1], places))
    above = table_of(mechanism).beyond(np.append(places - 0.5, places[-1] + 0.5) * bin_)
    size = 1 << (levels * len(places)).bit_length()
    masses = np.zeros(size)
    # the probability farther out counts as a miss
    masses[places] = np.maximum(-np.diff(above), 0.0)
    added = np.fft.irfft(np.fft.rfft(masses) ** levels, size)
    within = np.cumsum(added[: size // 2] + np.append(0.0, added[: size // 2 : -1]))
    bins = int(np.searchsorted(within, confidence))
    return min(bins * bin_ + levels * (bin_ - 1), math.ceil(levels * most))
