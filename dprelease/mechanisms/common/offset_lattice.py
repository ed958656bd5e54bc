"""Base class of discrete Gaussian and discrete offset-symmetric Gaussian noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantile, normal_relative_drop
from dprelease.mechanisms.common.variance_bounds import log_concave_moments
from dprelease.numerics import theta
from dprelease.numerics.lattice import Flags
from dprelease.privacy.loss import Floats
from dprelease.privacy.losses.offset_gaussian import density_at_zero, moments
from dprelease.privacy.losses.offset_integers import OffsetIntegerLoss

TABLE_ERROR = 2.0**-36
"""Bound on the relative error of a tabulated tail, including the interval width of a word."""


BUCKETS = 1 << 13
"""Number of equal buckets of probabilities up to 1/2; most lie within one cell."""

MOST_MIXED = 1 / 4
"""Largest part of buckets that may lie in several cells for this to save time."""


class OffsetLattice(SymmetricQuantile):
    """Noise on the integers, proportional to exp(-(k / scale)^2 / 2 - offset |k| / scale)."""

    @property
    @abstractmethod
    def offset(self) -> float:
        """Return the offset of the density on either side, in scales."""

    @property
    def position_error(self) -> float:
        """Return 2**-40 scales, and as much for the offset."""
        return self.scale * (1.0 + self.offset) * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Bound the relative drop in a block by the ratio of neighbours at its far end."""
        return normal_relative_drop(self.scale, self.offset, first, size)

    def upper_position(self, u: Floats) -> tuple[Floats, float]:
        """Return the real quantile of large scales."""
        error = self.position_error + theta.quantile_error(self.scale, self.offset)
        return theta.large_scale_quantile(self.scale, self.offset, u), error

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the largest k with u < P(K >= k), from a table or from the normal quantile."""
        if self.scale >= theta.TABLE_BELOW:
            return super().upper_quantile(u)
        tails, guide = theta.tails(self.scale, self.offset), _guide(self.scale, self.offset)
        if guide is None:
            return _looked_up(tails, u)
        k = guide[(u * (2 * BUCKETS)).astype(np.intp)].astype(np.float64)
        sure = k >= 0
        left = np.flatnonzero(~sure)
        k[left], sure[left] = _looked_up(tails, u[left])
        return k, sure

    def upper_tail(self, k: int) -> arb:
        """Return the sum of the weights from k on over the sum of all."""
        return theta.upper_tail(self.scale, self.offset, k)

    def losses(self, shift: int) -> tuple[OffsetIntegerLoss, ...]:
        """Return the exact loss of the integers themselves."""
        return (OffsetIntegerLoss(self.scale, self.offset, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum of |k| P(K = k); the Euler-Maclaurin value at large scales."""
        if self.scale < theta.TABLE_BELOW:
            mass = theta.weights(self.scale, self.offset)
            return 2 * float(np.sum(np.arange(len(mass)) * mass))
        h, r = 1 / self.scale, self.offset
        rest = -(h**2) / 12 + h**4 * (r**2 - 1) / 240
        return 2 * self.scale * self._integral(moments(r)[0], rest)

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum of k^2 P(K = k), in the same two ways."""
        if self.scale < theta.TABLE_BELOW:
            mass = theta.weights(self.scale, self.offset)
            return math.sqrt(2 * float(np.sum(np.arange(len(mass)) ** 2.0 * mass)))
        h, r = 1 / self.scale, self.offset
        return self.scale * math.sqrt(2 * self._integral(moments(r)[1], -(h**4) * r / 120))

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return a sum of chords above the tails, and 0."""
        return log_concave_moments(self)

    def _integral(self, moment: float, rest: float) -> float:
        """Return h times a sum over k > 0 of weighted powers, over h times all weights.

        `moment` is a moment of the continuous distribution, whose weights have the integral 1/(2
        peak) on one side; `rest` is the difference of sum and integral.
        """
        return (moment / (2 * density_at_zero(self.offset)) + rest) / theta.size(
            self.scale, self.offset
        )


def _looked_up(tails: Floats, u: Floats) -> tuple[Floats, Flags]:
    """Return the largest k with u < tails[k], and where the table is certain."""
    k = len(tails) - 1 - np.searchsorted(tails[::-1], u, side="right")
    at, beyond = tails[k], tails[np.minimum(k + 1, len(tails) - 1)]
    sure = (u < at * (1 - TABLE_ERROR)) & (u > beyond * (1 + TABLE_ERROR))
    return k.astype(np.float64), sure


@lru_cache(maxsize=64)
def _guide(scale: float, offset: float) -> NDArray[np.int32] | None:
    """Return k of each bucket of probabilities, -1 if undecided; None if most are undecided.

    An additional bucket at the end is for 1/2 itself. A bucket has a k if `_looked_up` is certain
    of it at both ends of the bucket: it compares the same floats, and is monotone in u.
    """
    tails = theta.tails(scale, offset)
    edges = np.arange(BUCKETS + 1) / (2 * BUCKETS)  # exact
    k, sure = _looked_up(tails, edges)
    one = sure[:-1] & sure[1:] & (k[:-1] == k[1:])
    if np.count_nonzero(~one) > MOST_MIXED * BUCKETS:
        return None
    guide = np.append(np.where(one, k[:-1], -1.0), -1.0).astype(np.int32)
    guide.setflags(write=False)
    return guide
