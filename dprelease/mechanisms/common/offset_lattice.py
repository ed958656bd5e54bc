"""Base class of the discrete Gaussian and the discrete offset-symmetric Gaussian mechanism."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dprelease.mechanisms.base import (
    QUANTILE_ERROR,
    SymmetricQuantileMechanism,
    normal_relative_drop,
)
from dprelease.mechanisms.common.variance_bounds import log_concave_variance_bound
from dprelease.numerics import theta
from dprelease.numerics.lattice import Flags
from dprelease.privacy.loss import Floats, PrivacyLoss
from dprelease.privacy.losses.offset_gaussian import OffsetIntegerLoss, density_at_zero, moments

TABLE_ERROR = 2.0**-36
"""Bound on the relative error of a tabulated tail probability, with the interval of a word."""


BUCKETS = 1 << 13
"""Number of equal intervals, called buckets, that divide the tail probabilities up to 1/2.

For most buckets, all probabilities have the same integer quantile."""

LARGEST_UNDECIDED_PART = 1 / 4
"""Largest part of buckets with several integer quantiles for which a bucket table saves time."""


class OffsetLattice(SymmetricQuantileMechanism):
    """Noise on the integers, proportional to exp(-(k / scale)^2 / 2 - offset |k| / scale)."""

    @property
    @abstractmethod
    def offset(self) -> float:
        """Return the offset of the normal density on both sides, in scales."""

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 scales, and as much for the offset."""
        return self.scale * (1.0 + self.offset) * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Return bounds of the relative drop of probabilities within a segment of integers.

        They follow from the ratio of neighbouring probabilities at the far end of each segment.
        """
        return normal_relative_drop(self.scale, self.offset, first, size)

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, float]:
        """Return the real quantile, which is accurate at large scales, and its error."""
        error = self.typical_quantile_error + theta.quantile_error(self.scale, self.offset)
        return theta.large_scale_quantile(self.scale, self.offset, u), error

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the largest k with u < P(K >= k), and flags of the k that are certain.

        Small scales use tables, and large scales use the normal quantile.
        """
        if self.scale >= theta.TABLE_BELOW:
            return super().upper_quantile(u)
        tails, guide = theta.tails(self.scale, self.offset), _bucket_table(self.scale, self.offset)
        if guide is None:
            return _quantiles_from_table(tails, u)
        # A product with a power of two is exact, so no probability falls into a neighbouring
        # bucket.
        k = guide[(u * (2 * BUCKETS)).astype(np.intp)].astype(np.float64)
        sure = k >= 0
        left = np.flatnonzero(~sure)
        k[left], sure[left] = _quantiles_from_table(tails, u[left])
        return k, sure

    def upper_tail(self, k: int) -> arb:
        """Return P(K >= k), the sum of the weights from k on divided by the sum of all weights."""
        return theta.upper_tail(self.scale, self.offset, k)

    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the exact loss of the integer noise."""
        return (OffsetIntegerLoss(self.scale, self.offset, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum of |k| P(K = k).

        At large scales the Euler-Maclaurin formula replaces the sum.
        """
        if self.scale < theta.TABLE_BELOW:
            mass = theta.point_probabilities(self.scale, self.offset)
            return 2 * float(np.sum(np.arange(len(mass)) * mass))
        h, r = 1 / self.scale, self.offset
        # The first terms of the Euler-Maclaurin formula at 0 for y exp(-y^2 / 2 - r y), whose
        # derivatives there are 1 and 3 (r^2 - 1).
        rest = -(h**2) / 12 + h**4 * (r**2 - 1) / 240
        return 2 * self.scale * self._one_sided_moment(moments(r)[0], rest)

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum of k^2 P(K = k).

        At large scales the Euler-Maclaurin formula replaces the sum.
        """
        if self.scale < theta.TABLE_BELOW:
            mass = theta.point_probabilities(self.scale, self.offset)
            return math.sqrt(2 * float(np.sum(np.arange(len(mass)) ** 2.0 * mass)))
        h, r = 1 / self.scale, self.offset
        return self.scale * math.sqrt(2 * self._one_sided_moment(moments(r)[1], -(h**4) * r / 120))

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return a bound of the variance, from chords above the tails, and the mean 0."""
        return log_concave_variance_bound(self)

    def _one_sided_moment(self, moment: float, rest: float) -> float:
        """Return a moment of the positive integers, in powers of the scale.

        `moment` is the corresponding moment of the continuous distribution. Its weights have the
        integral 1 / (2 density_at_zero) on one side. `rest` is the difference between the sum over
        integers and the integral.
        """
        return (moment / (2 * density_at_zero(self.offset)) + rest) / theta.weights_per_scale(
            self.scale, self.offset
        )


def _quantiles_from_table(tails: Floats, u: Floats) -> tuple[Floats, Flags]:
    """Return the largest k with u < tails[k], and flags of the k that the table decides."""
    k = len(tails) - 1 - np.searchsorted(tails[::-1], u, side="right")
    at, beyond = tails[k], tails[np.minimum(k + 1, len(tails) - 1)]
    # At the end of the table `at` and `beyond` are the same tail, so no k is certain there.
    sure = (u < at * (1 - TABLE_ERROR)) & (u > beyond * (1 + TABLE_ERROR))
    return k.astype(np.float64), sure


@lru_cache(maxsize=64)
def _bucket_table(scale: float, offset: float) -> NDArray[np.int32] | None:
    """Return the integer quantile of each bucket of probabilities, or -1 for undecided buckets.

    An additional bucket at the end is for the probability 1/2 itself. A bucket is decided if
    `_quantiles_from_table` returns the same certain k at both ends of the bucket. This suffices
    because that function compares the same floats and is monotone in u. The result is None if too
    many buckets are undecided.
    """
    tails = theta.tails(scale, offset)
    edges = np.arange(BUCKETS + 1) / (2 * BUCKETS)  # these floats are exact
    k, sure = _quantiles_from_table(tails, edges)
    is_decided = sure[:-1] & sure[1:] & (k[:-1] == k[1:])
    if np.count_nonzero(~is_decided) > LARGEST_UNDECIDED_PART * BUCKETS:
        return None
    bucket_table = np.append(np.where(is_decided, k[:-1], -1.0), -1.0).astype(np.int32)
    bucket_table.setflags(write=False)
    return bucket_table
