"""How far a quantile that is read from a tree of noised counts may lie from its rank.

A node holds B rows in its left half and A in its right one, noised by x and y, and the quantile
is a part p of it, a part q of the half that it goes to. Counted in true rows its position moves
there by p y - (q - p) x, q >= p, on the way to the left, and by -(1 - p) x + (p - q) y, q <= p, to
the right: by (1 - p) |x| + p |y| at most. Such a mean of two draws is nearer to zero than one of
them is (Proschan 1965, for symmetric log-concave laws), so the way through all levels is told to
err by one draw for each level, added up. That is more than it does, two to four times on most
columns; q depends on the same noise where counts are as small as that, which the tests cover. In
the last node any position is a rank that its value holds.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.postprocess.noise_table import table_of

BINS = 2**12


def path_width(law: Mechanism, levels: int, confidence: float) -> int:
    """Return w with P(|sum of `levels` draws| <= w) >= confidence, less than a bin a draw more."""
    miss = 1.0 - confidence
    most = law.half_width(1.0 - miss / (4 * levels))
    if levels == 1 or most == 0:
        return law.half_width(confidence)
    bin_ = -(-(2 * most + 1) // BINS)
    places = np.arange(-(-most // bin_) + 1)
    places = np.concatenate((-places[:0:-1], places))
    above = table_of(law).beyond(np.append(places - 0.5, places[-1] + 0.5) * bin_)
    size = 1 << (levels * len(places)).bit_length()
    masses = np.zeros(size)
    masses[places] = np.maximum(-np.diff(above), 0.0)  # what lies farther counts as a miss
    added = np.fft.irfft(np.fft.rfft(masses) ** levels, size)
    within = np.cumsum(added[: size // 2] + np.append(0.0, added[: size // 2 : -1]))
    bins = int(np.searchsorted(within, confidence))
    return min(bins * bin_ + levels * (bin_ - 1), math.ceil(levels * most))
