"""Privacy-loss distributions on a grid of losses, composed without a Fourier transform.

Every number in this module is a sum of positive floats, so its relative error has a bound that does
not depend on the order of the terms (Higham 2002, Accuracy and Stability of Numerical Algorithms,
section 3.1). `Grid.factor` is the product of these bounds.

A distribution covers a pair (P, Q) of neighbours if, at every real epsilon, the true
delta(epsilon) of the pair is at most `factor` times the delta of the distribution. If two
distributions cover two independent pairs, their convolution covers both pairs together: a fixed
output of the second pair only changes the epsilon at which the curve of the first pair is
evaluated, and a mean of covered curves is covered. The sum of the probabilities of a distribution
need not be one.

**Rejected.** A Fourier transform, because only its absolute error has a bound, which may exceed a
small delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprelease.privacy.loss import LARGEST_LOSS, Floats

UNDERFLOW_BOUND = 1e-300
"""Bound on the sum of all products of probabilities that underflow."""

LEAST_FLOAT = 2.0**-1074

EXP_ERROR = 2.0**-42
"""Bound on the relative error of exp(loss), for losses up to 600 from a few float operations."""


def sum_error(terms: int) -> float:
    """Return a bound on the relative error of a float sum of `terms` positive products."""
    return (terms + 8) * 2.0**-52


@dataclass(frozen=True, slots=True)
class Grid:
    """A privacy-loss distribution on equally spaced losses and infinity.

    `probabilities[i]` is the probability of the loss (first + i) * width, and `infinite` is the
    probability of an infinite loss. The true delta is at most `factor` times the delta of this
    distribution.
    """

    width: float
    first: int
    probabilities: Floats
    infinite: float
    factor: float = 1.0

    @property
    def last(self) -> int:
        """Return the largest finite loss divided by the width."""
        return self.first + len(self.probabilities) - 1

    def padded_probabilities(self, first: int, last: int) -> Floats:
        """Return the probabilities of the points from `first` to `last`, with zeros at both ends.

        A point is a loss divided by the width.
        """
        return np.pad(self.probabilities, (self.first - first, last - self.last))

    def compose(self, other: Grid) -> Grid:
        """Return the distribution of the sum of two independent losses.

        Both grids must have the same width.
        """
        shorter = min(len(self.probabilities), len(other.probabilities))
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        composed = Grid(
            self.width,
            self.first + other.first,
            # A direct sum of products, without the Fourier transform of `scipy.signal.fftconvolve`.
            np.convolve(self.probabilities, other.probabilities),
            infinite + UNDERFLOW_BOUND,
            self.factor * other.factor * (1.0 + sum_error(shorter)),
        )
        reach = int(LARGEST_LOSS / self.width)
        # Beyond this loss exp would overflow in `delta_curve`.
        return composed._restricted(-reach, reach)

    def with_double_width(self) -> Grid:
        """Return a distribution with twice the width that covers the same pairs of neighbours.

        The P probability of every odd point is divided between its two neighbours, so that the Q
        probability stays the same. The part t that the upper neighbour gets satisfies
        exp(-width) = 1 - t (1 - exp(-2 width)).
        """
        # Floor division, also for negative points: the first point of the new grid is at or below
        # the first of the old one.
        start = self.first // 2
        padded = self.padded_probabilities(2 * start, self.last + self.last % 2)
        even, odd = padded[::2].copy(), padded[1::2]
        even[1:] += odd / (1.0 + math.exp(-self.width))
        even[:-1] += odd / (1.0 + math.exp(self.width))
        factor = self.factor * (1.0 + sum_error(4))
        return Grid(2.0 * self.width, start, even, self.infinite, factor)

    def without_tails(self, probability: float) -> Grid:
        """Return a distribution without unlikely points at both ends.

        Points at the upper end, with together up to `probability`, get an infinite loss. Points at
        the lower end, with together up to `probability`, get the lowest remaining loss.
        """
        below = np.cumsum(self.probabilities)
        above = np.cumsum(self.probabilities[::-1])
        first = self.first + int(np.searchsorted(below, probability, side="right"))
        last = self.last - int(np.searchsorted(above, probability, side="right"))
        return self._restricted(first, last) if first <= last else self

    def _restricted(self, first: int, last: int) -> Grid:
        """Return a distribution on the points from `first` to `last` only.

        Points above `last` get an infinite loss, and points below `first` get the loss of `first`.
        """
        p = self.probabilities
        low = min(max(0, first - self.first), len(p))
        high = min(max(0, self.last - last), len(p))
        if not low and not high:
            return self
        middle = p[low : len(p) - high].copy() if low + high < len(p) else np.zeros(1)
        # A larger loss for the same probability: delta does not fall.
        middle[0] += np.sum(p[:low])
        infinite = self.infinite + float(np.sum(p[len(p) - high :]))
        factor = self.factor * (1.0 + sum_error(len(p)))
        start = min(max(self.first, first), last)
        return Grid(self.width, start, middle, infinite, factor)

    def delta_curve(self) -> tuple[Floats, Floats]:
        """Return delta at every point, and exp(loss) times the Q probability above every point.

        Both arrays have relative errors of at most `curve_error`, in addition to absolute errors of
        at most `curve_underflow_bound`.
        """
        x = np.exp(self.width * np.arange(self.first, self.last + 1))
        above = np.zeros_like(self.probabilities)
        # From the largest loss down: each partial sum then has only positive terms, and so a
        # relative error bound.
        above[:-1] = np.cumsum((self.probabilities / x)[:0:-1])[::-1]
        above *= x
        delta = np.full_like(above, self.infinite)
        delta[:-1] += np.cumsum(math.expm1(self.width) * above[-2::-1])[::-1]
        return delta, above

    @property
    def curve_error(self) -> float:
        """Return a bound on the relative errors of `delta_curve`."""
        return 2.0 * sum_error(len(self.probabilities)) + EXP_ERROR

    @property
    def curve_underflow_bound(self) -> float:
        """Return a bound on the errors of `delta_curve` from Q probabilities that underflow."""
        largest = math.exp(max(0.0, self.last * self.width))
        return 2.0 * len(self.probabilities) * LEAST_FLOAT * largest

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon >= 0, rounded up, at which covered pairs have at most `delta`.

        The result is infinite if no epsilon suffices. Between two points, delta is linear in
        exp(epsilon), so the chord between upper bounds at both points is an upper bound.
        """
        allowed = (
            delta / (self.factor * (1.0 + 2.0 * self.curve_error)) - self.curve_underflow_bound
        )
        if self.infinite > allowed or self.last <= 0:
            return math.inf if self.infinite > allowed else 0.0
        curve, _ = self.delta_curve()
        # It exists: at the last point the curve is `infinite`, which is within `allowed`.
        first_fitting = int(np.argmax(curve <= allowed))
        if first_fitting == 0:
            # Delta is small enough at the first point already. Below it no points are known, so
            # this is a bound.
            return max(0.0, self.first * self.width)
        before, after = float(curve[first_fitting - 1]), float(curve[first_fitting])
        part = (before - allowed) / (before - after)
        crossing = (self.first + first_fitting - 1) * self.width + math.log1p(
            part * math.expm1(self.width)
        )
        return max(0.0, crossing + 2.0**-40 * abs(crossing) + 2.0**-50)
