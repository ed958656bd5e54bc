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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dprelease.privacy.loss import LARGEST_LOSS, RELATIVE_ERROR, Floats, PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Losses = Callable[[int], tuple[PrivacyLoss, ...]]

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
        return composed._restrict(-reach, reach)

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
        return self._restrict(first, last) if first <= last else self

    def _restrict(self, first: int, last: int) -> Grid:
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


# Compute privacy-loss distributions on a grid that dominate exact privacy losses.
#
# A piece is a set of outputs whose losses lie between two points of the grid. Its P probability p
# and its Q probability q are divided between these two points so that both sums stay the same. This
# is a mean-preserving spread of the likelihood ratio. Hockey-stick divergences are means of convex
# functions of this ratio, so no divergence becomes smaller (Doroshenko, Ghazi, Kamath, Kumar and
# Manurangsi 2022, arXiv 2207.04380v1, "connect the dots").
#
# **Rejected.** Second differences of delta, because they subtract nearly equal numbers at small
# probabilities.

PROBABILITY_FACTOR = 1.0 + RELATIVE_ERROR
"""Largest ratio of a true P probability to the computed probability, for each coordinate."""

LOSS_ERROR = 2.0 * RELATIVE_ERROR * (1.0 + 2.0**-10)
"""Largest difference between a true loss ln(p/q) and the computed loss, for each coordinate.

If p and q have relative errors of r, delta(epsilon) is at most (1 + r) times the computed delta at
epsilon - 2r. The last factor covers the rounding errors of divided probabilities, which are some
units in the last place of q.
"""

EQUAL_CURVES = 2.0**-36
"""Relative distance below which two deltas count as equal, so that rounding causes no crossing."""

LARGEST_GRID = 2**22
LEAST_DELTA = 1e-290
"""Smallest delta of any budget; smaller values may be ignored."""


def grid_of(loss: PrivacyLoss, width: float) -> Grid:
    """Return a privacy-loss distribution on multiples of `width` that dominates `loss`.

    This means that, up to the factor of the distribution and `LOSS_ERROR`, its delta(epsilon) is at
    least the delta(epsilon) of `loss` for every epsilon.

    Raises OverflowError if the losses reach too far for a grid of this width.
    """
    # Checked before any array is made.
    if 2 * min(loss.largest_relevant_loss, LARGEST_LOSS) / width > LARGEST_GRID:
        raise OverflowError("the grid of losses is too long")
    last_point = int(min(math.ceil(loss.largest_relevant_loss / width) + 1, LARGEST_LOSS / width))
    pieces = loss.pieces(width)
    # Rounding of the quotient may move an end by one point outward, which only spreads the piece
    # wider. It moves an end inward by less than `LOSS_ERROR` allows.
    low = np.floor(np.clip(pieces.low / width, -last_point, last_point))
    high = np.ceil(np.clip(pieces.high / width, -last_point, np.inf))
    # Pieces above the grid get an infinite loss; the rest of Q belongs to outputs that P never has.
    is_infinite = high > last_point
    # Also a piece of one loss exactly on a point gets an interval, because the formula divides by
    # its width.
    high = np.where(is_infinite, low, np.maximum(high, low + 1))
    # A piece below the grid moves up to the first point, which takes less than its Q probability.
    upper_part = _upper_point_parts(pieces.p, pieces.q, low * width, (high - low) * width)
    finite = np.where(is_infinite, 0.0, pieces.p)
    points = np.concatenate((low, high)).astype(np.int64) + last_point
    point_probabilities = np.concatenate((finite * (1.0 - upper_part), finite * upper_part))
    probabilities: Floats = np.bincount(points, point_probabilities, 2 * last_point + 2).astype(
        np.float64
    )
    factor = PROBABILITY_FACTOR * (1.0 + sum_error(len(points)))
    return Grid(width, -last_point, probabilities, float(np.sum(pieces.p[is_infinite])), factor)


def _upper_point_parts(p: Floats, q: Floats, lower: Floats, width: Floats) -> Floats:
    """Return the part t of the P probability of each piece that its upper grid point gets.

    The equation q = p exp(-lower) ((1 - t) + t exp(-width)) determines t.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = (1.0 - np.exp(lower) * q / p) / -np.expm1(-width)
    # Where the quotient is undefined, the whole piece gets the upper point, which is the safe side.
    return np.where(p > 0.0, np.clip(np.nan_to_num(part, nan=1.0, posinf=1.0), 0.0, 1.0), 1.0)


def pointwise_largest(grids: Sequence[Grid]) -> Grid:
    """Return a distribution that covers every pair of neighbours that one of `grids` covers.

    The pointwise maximum of the curves of dominating pairs is the curve of a dominating pair (Zhu,
    Dong and Wang 2022, arXiv 2106.08567v4, Proposition 4).
    """
    best = grids[0]
    for other in grids[1:]:
        best = _pointwise_larger(best, other)
    return best


def _pointwise_larger(a: Grid, b: Grid) -> Grid:
    """Return the distribution whose delta at every grid point is the larger delta of `a` and `b`.

    As a function of exp(epsilon), a curve is linear between two points, and its slope is minus the
    Q probability above these points. Where one curve stays above the other, its probabilities are
    copied, so that no nearly equal numbers are subtracted. Only where the curves cross is a
    probability the difference of two slopes. The rounding errors of such differences are measured
    and added.
    """
    first, last = min(a.first, b.first), max(a.last, b.last)
    a, b = _pad_grid(a, first, last), _pad_grid(b, first, last)
    (delta_a, above_a), (delta_b, above_b) = a.delta_curve(), b.delta_curve()
    factor = max(a.factor, b.factor) * (1.0 + EQUAL_CURVES) * (1.0 + 4.0 * a.curve_error)
    # Where both are about equal, `a` is kept, and the factor covers the difference.
    upper_part = delta_b > delta_a * (1.0 + EQUAL_CURVES)
    if not upper_part.any() and a.infinite >= b.infinite:
        return replace(a, factor=factor, infinite=a.infinite + a.curve_underflow_bound)
    if (delta_b * (1.0 + EQUAL_CURVES) >= delta_a).all() and b.infinite >= a.infinite:
        return replace(b, factor=factor, infinite=b.infinite + b.curve_underflow_bound)
    delta, above = np.where(upper_part, delta_b, delta_a), np.where(upper_part, above_b, above_a)
    p = np.where(upper_part, b.probabilities, a.probabilities)
    # above[i] is exp(epsilon_i) times minus the slope above point i. At a crossing, the slope is
    # the slope of a chord.
    crossing = np.flatnonzero(upper_part[1:] != upper_part[:-1])
    grow = math.expm1(a.width)
    above[crossing] = (delta[crossing] - delta[crossing + 1]) / grow
    for i in sorted({*crossing.tolist(), *(crossing + 1).tolist()}):
        # The Q probability of a point is the difference of the slopes on both sides of it.
        before = math.exp(a.width) * above[i - 1] if i else 1.0 - delta[0]
        # Rounding may make a difference slightly negative. What this loses is measured as
        # `missing`.
        p[i] = max(0.0, before - above[i])
    largest = Grid(a.width, first, p, max(a.infinite, b.infinite))
    curve, _ = largest.delta_curve()
    relevant = delta > LEAST_DELTA
    totals = (float(np.sum(x.probabilities)) + x.infinite for x in (a, largest))
    missing = float(np.max(delta[relevant] / curve[relevant], initial=next(totals) / next(totals)))
    infinite = largest.infinite + largest.curve_underflow_bound + LEAST_DELTA
    return replace(largest, factor=factor * max(1.0, missing), infinite=infinite)


def _pad_grid(grid: Grid, first: int, last: int) -> Grid:
    """Return the grid with zeros added, so that it reaches from `first` to `last`."""
    return replace(grid, first=first, probabilities=grid.padded_probabilities(first, last))


def slot_grid(losses: Losses, sensitivity: Sensitivity, width: float) -> Grid:
    """Return a privacy-loss distribution that dominates every move of one part of a change."""
    return pointwise_largest([move_grid(losses, move, width) for move in sensitivity.moves])


def move_grid(losses: Losses, move: Move, width: float) -> Grid:
    """Return a privacy-loss distribution that dominates one move.

    The distribution is the composition of the losses of `move.cells` independent cells, each of
    which moves by `move.shift` steps.
    """
    single = pointwise_largest([grid_of(loss, width) for loss in losses(move.shift)])
    composed = single
    for _ in range(move.cells - 1):
        # One by one, because a move has few cells, and without truncation, for which no delta is
        # known here.
        composed = composed.compose(single)
    return composed
