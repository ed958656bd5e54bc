"""Bound how far a quantile read from a tree of noised counts may lie from its rank.

A node holds B rows in its left half and A rows in its right half, with noise x and y. The quantile
lies at a part p of the node, and at a part q of the half into which the path descends. Counted in
true rows, its position moves by p y - (q - p) x, with q >= p, if the path goes left, and by
-(1 - p) x + (p - q) y, with q <= p, if the path goes right. Both are at most (1 - p) |x| + p |y|.
Such a mean of two draws is nearer to zero than a single draw (Proschan 1965, for symmetric
log-concave distributions). So the reported error of the path through all levels is the sum of one
draw for each level. The sum overestimates the error two to four times on most columns. In small
counts q depends on the same noise, and tests cover this case. In the last node, the value of the
node holds every rank.

The ends of an interval descend by b L - a n, where L of n rows lie below the middle of a node, and
a / b is the fraction of the quantile. The noised b L - a n has the noise of the halves of the node,
and of one node on each level above: at most d + 1 draws in a tree of d levels, with factors of at
most m = max(a, b - a). The path to the smallest true quantile q doesn't depend on the noise. A
lower end leaves it to the right only at one of its d nodes, where q is on the left, so b L - a n >=
0, but the noised number is below -w. So the end exceeds q with a probability of at most d times
that of noise beyond w. Symmetric unimodal noise with factors up to m is at least as near to zero as
noise with m as all factors. Upper ends are the reverse.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.postprocess.noise_table import table_of

BINS = 2**12


def end_width(mechanism: Mechanism, levels: int, at: Fraction, confidence: float) -> int:
    """Return the number of points w by which the ends of an interval move away from a quantile.

    Each end misses the quantile with a probability of at most (1 - confidence) / 2.
    """
    factors = at.numerator, at.denominator - at.numerator
    width = path_width(mechanism, levels + 1, 1.0 - (1.0 - confidence) / (2 * levels))
    # Noise is rounded: unequal factors of rounded noise may add up to one more point per draw.
    rounding = levels + 1 if width and factors[0] != factors[1] else 0
    return max(factors) * (width + rounding)


@lru_cache(maxsize=256)
def path_width(mechanism: Mechanism, levels: int, confidence: float) -> int:
    """Return a width w with P(|sum of `levels` draws| <= w) >= confidence.

    The width exceeds the least such width by less than one bin for each draw.
    """
    miss = 1.0 - confidence
    largest_draw = mechanism.half_width(1.0 - miss / (4 * levels))
    if levels == 1 or largest_draw == 0:
        return mechanism.half_width(confidence)
    bin_width = -(-(2 * largest_draw + 1) // BINS)
    bins = np.arange(-(-largest_draw // bin_width) + 1)
    bins = np.concatenate((-bins[:0:-1], bins))
    tails = table_of(mechanism).beyond(np.append(bins - 0.5, bins[-1] + 0.5) * bin_width)
    size = 1 << (levels * len(bins)).bit_length()
    probabilities = np.zeros(size)
    # The probability outside all bins is left out, as if these sums exceeded the width.
    probabilities[bins] = np.maximum(-np.diff(tails), 0.0)
    # of_sum[i] is the probability of the sum i; negative sums stand at the end of the array.
    of_sum = np.fft.irfft(np.fft.rfft(probabilities) ** levels, size)
    within = np.cumsum(of_sum[: size // 2] + np.append(0.0, of_sum[: size // 2 : -1]))
    last_bin = int(np.searchsorted(within, confidence))
    return min(last_bin * bin_width + levels * (bin_width - 1), math.ceil(levels * largest_draw))
