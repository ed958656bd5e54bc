"""The privacy loss of symmetric alpha-stable noise, which is bounded but not monotone.

Let p be the density of the noise, x an output and d the shift, both in scales. For x = -y <= 0, the
loss is L(y) = ln p(y) - ln p(y + d). Between 0 and d the loss falls, and is zero at d / 2. Above d
it is the negative of its mirror image. The density is symmetric and unimodal, so L(y) grows with d
for every y, and the hockey-stick divergence for every epsilon >= 0 grows with d as well. So a claim
for one shift holds for all smaller shifts.

L is evaluated in floats with a known error. Between two points, its curvature bounds L:
|L''| <= min(d THIRD_DERIVATIVE, 2 SECOND_DERIVATIVE). From `TAIL_START` on, ln p is in its power
tail, where L falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from dprelease.numerics import stable
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.quadrature import interval_integrals
from dprelease.privacy.loss import Pieces, PrivacyLoss, renyi_bound

SECOND_DERIVATIVE, THIRD_DERIVATIVE = 16.0, 64.0
"""Bounds of |(ln p)''| and |(ln p)'''| for every alpha, which tests check on dense grids."""

TAIL_START = 30.0
LEAST_SHIFT = 2.0**-12
"""Shift below which the loss is bounded by the slope of ln p, because differences lose digits."""

LOG_ERROR = 2.0 * stable.RELATIVE_ERROR
"""Bound on the error of the difference of two logarithms."""

STEP, FINE_STEPS, INTERVAL_PARTS = 1 / 256, 64, 256
FLOAT_MARGIN = 1.0 + 2.0**-36


@lru_cache(maxsize=1024)
def largest_loss(alpha: float, shift: float) -> float:
    """Return an upper bound of the largest loss, which exceeds the largest loss by about 1e-7.

    `shift` is in scales. For alpha 1 the largest loss is 2 asinh(shift / 2) (Zawacki and Abed, eq.
    73). For other alphas, the bound is the largest loss on a grid, which is refined near its
    maximum, plus the largest possible excess between two grid points.
    """
    if alpha == 1.0:
        return 2 * math.asinh(shift / 2) * (1 + 2.0**-50)
    if shift < LEAST_SHIFT:
        # If s is the steepest slope of ln p, at y0, the mean slope on [y0 - h/2, y0 + h/2] is at
        # least s - THIRD_DERIVATIVE h^2 / 24, and the loss is at most shift times s.
        h = LEAST_SHIFT
        return shift * (largest_loss(alpha, h) / h + THIRD_DERIVATIVE * h * h / 24) * (1 + 2.0**-50)
    y = np.arange(0.0, TAIL_START, STEP)
    loss = _grid_log_density(alpha) - stable.log_pdf(alpha, y + shift)
    chord_error = _chord_error(shift, STEP)
    best = float(loss.max())
    # Only next to these points can the loss exceed the best of the grid: elsewhere even the chord's
    # error leaves it below.
    near_maximum = y[loss >= best - chord_error]
    fine = (
        near_maximum[:, None] + STEP / FINE_STEPS * np.arange(-FINE_STEPS, FINE_STEPS + 1)
    ).ravel()
    best = float(_loss(alpha, np.maximum(fine, 0.0), shift).max())
    return (best + _chord_error(shift, STEP / FINE_STEPS) + LOG_ERROR) * (1 + 2.0**-50)


@lru_cache(maxsize=16)
def _grid_log_density(alpha: float) -> Floats:
    """Return the logarithm of the stable density at the points of the grid."""
    return stable.log_pdf(alpha, np.arange(0.0, TAIL_START, STEP))


def _chord_error(shift: float, step: float) -> float:
    """Return a bound of L minus its chord between two points at a distance of `step`."""
    return step * step / 8 * min(shift * THIRD_DERIVATIVE, 2 * SECOND_DERIVATIVE)


def _loss(alpha: float, y: Floats, shift: float) -> Floats:
    """Return the privacy loss at each output y."""
    return np.asarray(stable.log_pdf(alpha, y) - stable.log_pdf(alpha, y + shift))


@dataclass(frozen=True)
class StableLoss(PrivacyLoss):
    """The loss of stable noise against the same noise moved by `shift` scales, rounded up."""

    alpha: float
    shift: float

    @property
    def pure_epsilon(self) -> float:
        """Return an upper bound of the largest loss."""
        return largest_loss(self.alpha, self.shift)

    @cached_property
    def _nonnegative_half(self) -> _NonnegativeHalf:
        """The half of the loss distribution where losses are not negative."""
        return _NonnegativeHalf.of(self.alpha, self.shift)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return an upper bound of delta, from intervals that are divided if they contain epsilon.

        For epsilon < 0, delta is 1 - exp(epsilon) + exp(epsilon) delta(-epsilon), because both
        directions of the shift have the same curve.
        """
        if epsilon >= self.pure_epsilon:
            return 0.0
        # A fraction may lie below the float to which it is rounded, by less than one float.
        edge = math.nextafter(float(epsilon), -math.inf)
        if edge < 0:
            rest = self.delta(-edge)
            return min(1.0, (-math.expm1(edge) + math.exp(edge) * rest) * FLOAT_MARGIN)
        return min(1.0, self._nonnegative_half.hockey_stick_bound(edge))

    def pieces(self, width: float) -> Pieces:
        """Return one piece for each interval of both halves, narrow enough for every `width`."""
        half = self._nonnegative_half
        p, q = half.probabilities
        return Pieces(
            np.concatenate((p, q)),
            np.concatenate((q, p)),
            np.concatenate((half.low, -half.high)),
            np.concatenate((half.high, -half.low)),
        )

    def renyi(self, order: float) -> float:
        """Return an upper bound of the Rényi divergence of an order above 1."""
        return min(self.pure_epsilon, renyi_bound(self.pieces(0.0), order))


@dataclass(frozen=True)
class _NonnegativeHalf:
    """Intervals [left, right] of all outputs x <= shift / 2, where the loss is not negative.

    The first interval extends to minus infinity. `low` and `high` bound the losses on each
    interval.
    """

    alpha: float
    shift: float
    left: Floats
    right: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, alpha: float, shift: float) -> _NonnegativeHalf:
        """Return the intervals for an alpha and a shift."""
        x = _interval_edges(shift)
        loss = np.asarray(stable.log_pdf(alpha, x) - stable.log_pdf(alpha, x - shift))
        left, right = x[:-1], x[1:]
        may_curve = (left >= -TAIL_START) & (right <= 0)
        margin = (
            LOG_ERROR
            + np.where(may_curve, 1.0, 0.0) * _chord_error(shift, 1.0) * (right - left) ** 2
        )
        # Losses of this half are never negative.
        low = np.maximum(np.minimum(loss[:-1], loss[1:]) - margin, 0.0)
        high = np.minimum(np.maximum(loss[:-1], loss[1:]) + margin, largest_loss(alpha, shift))
        # Below the first edge, the loss falls to zero.
        low, high = np.concatenate(([0.0], low)), np.concatenate(([loss[0] + LOG_ERROR], high))
        left, right = np.concatenate(([-np.inf], left)), np.concatenate(([x[0]], right))
        return cls(alpha, shift, left, right, low, high)

    @cached_property
    def probabilities(self) -> tuple[Floats, Floats]:
        """Return the P probabilities and the Q probabilities of the intervals."""
        return self._interval_probabilities(self.left, self.right)

    def _interval_probabilities(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Return the probability of each interval, and that after the shift."""
        alpha, shift = self.alpha, self.shift

        def density(x: Floats) -> Floats:
            """Return the stable density at each point."""
            return stable.pdf(alpha, x.ravel()).reshape(x.shape)

        is_unbounded = np.isinf(left)
        start = np.where(is_unbounded, right - 1.0, left)
        p = interval_integrals(start, right, density)
        q = interval_integrals(start - shift, right - shift, density)
        p[is_unbounded] = stable.sf(alpha, -right[is_unbounded])
        q[is_unbounded] = stable.sf(alpha, shift - right[is_unbounded])
        return p, q

    def hockey_stick_bound(self, epsilon: float) -> float:
        """Return an upper bound of the hockey-stick divergence at `epsilon` >= 0.

        It bounds the integral of p - exp(epsilon) q over all outputs with a loss above epsilon.
        """
        p, q = self.probabilities
        above_epsilon = self.low >= epsilon
        total = _sum_of_gains(p[above_epsilon], q[above_epsilon], epsilon)
        divided = np.flatnonzero((self.high > epsilon) & ~above_epsilon)
        is_unbounded = divided[np.isinf(self.left[divided])]
        total += float(np.sum(p[is_unbounded] * -np.expm1(epsilon - self.high[is_unbounded])))
        return (
            total + self._gain_of_divided_intervals(divided[~np.isinf(self.left[divided])], epsilon)
        ) * FLOAT_MARGIN

    def _gain_of_divided_intervals(self, cells: Integers, epsilon: float) -> float:
        """Return an upper bound of the integral over intervals that may contain losses of epsilon.

        Each of these intervals is divided into `INTERVAL_PARTS` parts.
        """
        if not len(cells):
            return 0.0
        left, width = self.left[cells, None], (self.right - self.left)[cells, None] / INTERVAL_PARTS
        ends = left + width * np.arange(INTERVAL_PARTS + 1)
        log_p, log_q = (
            stable.log_pdf(self.alpha, x.ravel()).reshape(ends.shape)
            for x in (ends, ends - self.shift)
        )
        loss = log_p - log_q
        may_curve = (left >= -TAIL_START) & (left < 0)
        high = np.maximum(loss[:, 1:], loss[:, :-1]) + LOG_ERROR
        high = high + np.where(may_curve, _chord_error(self.shift, 1.0), 0.0) * width**2
        density = np.exp(np.maximum(log_p[:, 1:], log_p[:, :-1]))
        # The density falls away from 0, so its largest value on a part is at one of the ends,
        # unless 0 lies inside; 0 is an edge.
        return float(np.sum(density * width * -np.expm1(-np.maximum(high - epsilon, 0.0))))


def _sum_of_gains(p: Floats, q: Floats, epsilon: float) -> float:
    """Return the sum of p - exp(epsilon) q, plus a bound of its rounding errors."""
    difference = p - math.exp(epsilon) * q
    return float(np.sum(np.maximum(difference, 0.0)) + np.sum(p) * 2.0**-38)


def _interval_edges(shift: float) -> Floats:
    """Return sorted edges of intervals of outputs, up to shift / 2.

    Near 0 the edges have equal distances, and far from 0 they have equal ratios.
    """
    near_maximum = np.arange(0.0, TAIL_START, 1 / 64)
    far = np.geomspace(TAIL_START, 1e7 * max(1.0, shift), 400)
    outer = -np.concatenate((near_maximum, far))[::-1]
    middle = shift / 2
    if middle <= 2 * TAIL_START:
        inner = np.linspace(0.0, middle, 2 + int(middle * 64))
    else:
        grown = np.geomspace(TAIL_START, middle, 2 + int(64 * math.log(middle / TAIL_START)))
        inner = np.concatenate((near_maximum, grown))
    return np.concatenate((outer, inner[1:]))


# The privacy cost of a sum of stable noise, if every party rounds its share of the noise.
#
# Each of n parties draws Y_i independently, with the density f, and sends q_i + K_i, where K_i is
# Y_i rounded to whole steps. An attacker who sees only the sum of these messages sees q + V, with V
# = K_1 + ... + K_n. V is not the rounded sum of the Y_i, so V is no post-processing of this sum,
# and the guarantee of the rounded sum does not hold for V. But the distribution of V is close to
# that of the rounded sum:
#
#     exp(-a) F'(v) <= P(V = v) <= exp(a) F'(v)    for every v,    a = (3 n + 1) / 2 * slope,
#
# where F' is the distribution of Y_1 + ... + Y_n, rounded once, and `slope` bounds |(ln f)'| per
# step.
#
# Proof. By the definition of `slope`, f(y + t) <= exp(slope |t|) f(y). Let g(v) be the sum of
# f(k_1) ... f(k_n) over all integers k_1, ..., k_n whose sum is v.
# 1. P(V = v) is the integral, over |r_i| <= 1/2, of the sum of f(k_1 + r_1) ... f(k_n + r_n) over
#    the same integers. So P(V = v) is g(v) up to a factor exp(+-n slope / 2).
# 2. g(v + j) is g(v) up to a factor exp(+-slope |j|), because j can be added to k_1 alone.
# 3. The density F of Y_1 + ... + Y_n at v is the same integral over r_1, ..., r_n and integers w
#    with w + r_1 + ... + r_n = v. Up to a factor exp(+-n slope / 2), it is an average of g(w) over
#    |w - v| <= n / 2, whose weights are values of the uniform spline and add up to one. So by
#    step 2, F(v) is g(v) up to a factor exp(+-n slope).
# 4. ln F is no steeper than ln f, so F'(v) is F(v) up to a factor exp(+-slope / 2).
# Together the exponents are (n / 2 + n + 1 / 2) slope = a.
#
# Suppose that a privacy unit can move `moved` coordinates, and that rounded stable noise with
# n^(1/alpha) times the scale of a share is (epsilon, delta)-private for these moves. Then the sums
# of messages are (epsilon + 2 a moved, exp(a moved) delta)-private, because the probabilities of
# unmoved coordinates cancel. Finer steps of the parties make `slope`, and so a, arbitrarily small.
# Messages of parties that add no noise, or that reveal their noise, are constants. So n is the
# number of parties that add noise and keep it secret.
#
# The sum of all messages modulo 2^64 is a function of their sum, so it is post-processing.


SHARES_MARGIN = 1.0 + 2.0**-40
"""Factor that exceeds the relative error of a few float operations."""


@lru_cache(maxsize=256)
def log_slope_bound(alpha: float) -> float:
    """Return an upper bound of |(ln p)'| for the density p of the standard stable distribution.

    If s is the largest slope, the largest loss for a short shift h is at least
    h (s - THIRD_DERIVATIVE h^2 / 24), which yields a bound of s.
    """
    h = LEAST_SHIFT
    return (largest_loss(alpha, h) / h + THIRD_DERIVATIVE * h * h / 24) * SHARES_MARGIN


def rounding_exponent(alpha: float, share: float, parties: int) -> float:
    """Return a, rounded up, such that rounding changes probabilities by at most a factor exp(a).

    The probabilities are those of the sum of the noise of all parties. `share` is the scale of the
    noise of one party, in the steps to which the noise is rounded. `parties` is the number of
    parties that add noise. A single party rounds the sum itself, so a is 0.
    """
    if parties == 1:
        return 0.0
    return (3 * parties + 1) / 2 * log_slope_bound(alpha) / share * SHARES_MARGIN
