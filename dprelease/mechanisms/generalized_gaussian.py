"""Generalized Gaussian mechanism, rounded to whole steps.

Release    q + round(Y), where the density of Y is proportional to exp(-(|y| / scale)^p), with
           1 <= p <= 8.
Guarantee  The curve delta(epsilon) of the continuous mechanism; rounding is post-processing. For
           p = 1 the noise is Laplace noise, which is pure. For every p > 1 the loss is unbounded,
           so the mechanism is not listed as pure. A larger p means thinner tails and a steeper
           loss.
Source     Liu 2019, arXiv 1602.06028v6, Definitions 4 and 5. The module computes delta from the
           output whose loss is epsilon.
Units      q, Y and scale in steps; scale is sqrt(2) standard deviations at p = 2.

The distribution is log-concave and symmetric, so the curve of a shift bounds the curves of all
smaller shifts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from flint import arb, ctx

from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantileMechanism
from dprelease.mechanisms.common.variance_bounds import log_concave_variance_bound
from dprelease.mechanisms.randomizer import ShapeParameter
from dprelease.numerics import power_tail
from dprelease.numerics.balls import LEAST_FLOAT, ball, float_upper_bound
from dprelease.numerics.lattice import Flags
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import LARGEST_LOSS, Floats, Pieces, PrivacyLoss, epsilon_lower_bound
from dprelease.privacy.losses.two_sided_exponential import ExponentialLoss

TABLE_BELOW = 1024.0
TABLE_ERROR = 2.0**-36
"""Bound on the relative error of a tabulated tail probability, with the interval of a word."""

UNDERFLOW_POWER = 800.0
"""Value of |y|^p from which a tail probability is below the least float."""

NEGLIGIBLE_TAIL = 1e-40
"""Tail probability below which tails don't change a mean or a variance."""


@dataclass(frozen=True)
class GeneralizedGaussian(SymmetricQuantileMechanism):
    """Noise with density proportional to exp(-(|y| / scale)^p), rounded to the nearest step."""

    name: ClassVar[str] = "generalized_gaussian"
    summary: ClassVar[str] = "exp(-|y|^p) noise, rounded; approximate, tails from Laplace's down"
    use_case: ClassVar[str] = (
        "between Laplace and Gaussian noise, or where far outliers do most harm"
    )
    pure: ClassVar[bool] = False
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 2
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = (
        ShapeParameter("p", "power of the exponent", "1 to 8"),
    )
    searched_shapes: ClassVar[tuple[Mapping[str, float], ...]] = tuple(
        {"p": p} for p in (1.5, 1.25, 2.0, 1.0625, 3.0, 4.0, 1.0)
    )
    example_shapes: ClassVar[tuple[Mapping[str, str | float], ...]] = ({"p": 1.5}, {"p": 3.25})
    parameter_ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (1.0, 8.0)}

    p: float = 2.0

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    @cached_property
    def _steepest_log_slope(self) -> float:
        """Return the slope of the log density, per scale, at a point whose tail is below 2**-21."""
        return float(
            # The slope rises with |y|. A segment with a tail of 2^-20 may reach a little farther,
            # so the slope is taken at a point with half of the least tail.
            self.p * power_tail.quantile_bound(self.p, power_tail.LEAST_TAIL / 2) ** (self.p - 1)
        )

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Return a bound of the relative drop of probabilities within a segment of integers.

        It follows from the steepest slope of the log density.
        """
        return self._steepest_log_slope * (size / self.scale)

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, Floats]:
        """Return x + 1/2 for the quantile x at large scales; some errors may be infinite."""
        position, near = power_tail.quantile(self.p, u)
        position *= self.scale
        position += 0.5
        return position, np.where(near, self.typical_quantile_error, np.inf)

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return floor(x + 1/2) for the quantile x; small scales use a table of tails."""
        if self.scale >= TABLE_BELOW:
            return super().upper_quantile(u)
        tails = power_tail.ascending_tails(self.p, self.scale)
        index = np.minimum(np.searchsorted(tails, u, side="right"), len(tails) - 1)
        sure = (u < tails[index] * (1 - TABLE_ERROR)) & (u > tails[index - 1] * (1 + TABLE_ERROR))
        return len(tails) - 1.0 - index, sure

    def upper_tail(self, k: int) -> arb:
        """Return P(Y >= k - 1/2), the tail of the continuous noise."""
        return power_tail.tail_ball(self.p, arb(2 * k - 1) / (2 * arb(self.scale)))

    def losses(self, shift: int) -> tuple[PowerLoss | ExponentialLoss, ...]:
        """Return the loss of the continuous noise, which bounds the loss of the rounded noise."""
        if self.p == 1.0:
            exact_scale = Fraction(self.scale)
            return (ExponentialLoss(exact_scale, exact_scale, shift),)
        return (PowerLoss(self.p, self.scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k).

        For large scales the Euler-Maclaurin formula replaces the sum. Its first omitted term has
        the relative order scale^-(p + 2).
        """
        if self.scale >= TABLE_BELOW:
            mean = self.scale * math.gamma(2 / self.p) / math.gamma(1 / self.p)
            return mean - power_tail.density(self.p) / (12 * self.scale)
        return 2 * float(np.sum(self._tails_by_step()[1]))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(K >= k)."""
        if self.scale >= TABLE_BELOW:
            variance = self.scale**2 * math.gamma(3 / self.p) / math.gamma(1 / self.p)
            return math.sqrt(variance + 1 / 12)
        k, tails = self._tails_by_step()
        return math.sqrt(2 * float(np.sum((2 * k - 1) * tails)))

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return a bound of the variance, from chords above the tails, and the mean 0."""
        return log_concave_variance_bound(self)

    def _tails_by_step(self) -> tuple[Floats, Floats]:
        """Return the positive steps, and the tail probability from each step on."""
        k = np.arange(1.0, self.scale * power_tail.quantile_bound(self.p, NEGLIGIBLE_TAIL) + 2)
        return k, power_tail.tail(self.p, (k - 0.5) / self.scale)


@dataclass(frozen=True)
class PowerLoss(PrivacyLoss):
    """The loss of noise with p > 1 against the same noise moved by `shift` steps.

    At an output of y scales, the loss is |y - t|^p - |y|^p with t = shift / scale, which falls as y
    grows.
    """

    p: float
    scale: float
    shift: int

    @property
    def normal_mu(self) -> float | None:
        """Return the shift in standard deviations for p = 2, rounded up; None for any other p."""
        if self.p != 2.0:
            return None
        exact = Fraction(self.shift) / Fraction(self.scale)
        # The float of sqrt 2 is above sqrt 2, and the factor covers the roundings of two products.
        return math.nextafter(round_up(exact) * math.sqrt(2.0) * (1 + 2.0**-51), math.inf)

    @property
    def _shift_in_scales(self) -> Fraction:
        return Fraction(self.shift) / Fraction(self.scale)

    @cached_property
    def largest_relevant_loss(self) -> float:
        """Return the loss at an output whose lower tail under P is below 1e-40."""
        return float(
            self._losses_of_outputs(np.array([-power_tail.quantile_bound(self.p, 1e-40)]))[0]
        )

    def _losses_of_outputs(self, y: Floats) -> Floats:
        """Return the privacy loss at each output, which is given as a multiple of the scale."""
        losses: Floats = np.abs(y - float(self._shift_in_scales)) ** self.p - np.abs(y) ** self.p
        return losses

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(Y <= y) - exp(epsilon) P(Y <= y - t), rounded up, for the y with loss epsilon.

        For a negative epsilon = -e, the result is 1 - exp(-e) + exp(-e) delta(e) by symmetry.
        """
        edge = epsilon_lower_bound(epsilon)
        size = abs(edge)
        start = self._output_of_loss(size)
        if edge >= 0 and start is None:
            return LEAST_FLOAT

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            gain = (
                arb(0).union(arb(LEAST_FLOAT))
                if start is None
                else self._hockey_stick_interval(start, size)
            )
            return gain if edge >= 0 else -ball(edge).expm1() + ball(edge).exp() * gain

        # Both terms are about exp(-|y|^p), which is 2 to the power of -1.44 |y|^p, so that many
        # bits are lost.
        digits = 0.0 if start is None or start > 0 else 1.5 * (-start) ** self.p
        return min(1.0, float_upper_bound(delta_interval, 128 + int(digits)))

    def _hockey_stick_interval(self, start: float, epsilon: Fraction) -> arb:
        """Return an interval (ball) of P(Y <= y) - exp(epsilon) P(Y <= y - t), for loss epsilon."""
        y = self._exact_output_of_loss(start, epsilon)
        lost = ball(epsilon).exp() * power_tail.tail_ball(self.p, ball(self._shift_in_scales) - y)
        return power_tail.tail_ball(self.p, -y) - lost

    def _output_of_loss(self, size: Fraction) -> float | None:
        """Return approximately the output y <= t/2 whose loss is `size` >= 0.

        The result is None if the tail at y, which is below exp(-|y|^p), underflows.
        """
        move, farthest = float(self._shift_in_scales), float(UNDERFLOW_POWER ** (1 / self.p))
        if size > self._loss_of_output(-farthest) * (1 + 2.0**-30):
            return None
        aim, low, high = float(size), -farthest, move / 2
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if self._loss_of_output(middle) < aim else (middle, high)
        return (low + high) / 2

    def _loss_of_output(self, y: float) -> float:
        """Return the loss of the output y <= t/2, without subtraction of nearly equal powers."""
        move = float(self._shift_in_scales)
        if -y > move:
            return float((-y) ** self.p * math.expm1(self.p * math.log1p(move / -y)))
        return float((move - y) ** self.p - abs(y) ** self.p)

    def _exact_output_of_loss(self, start: float, epsilon: Fraction) -> arb:
        """Return an interval (ball) around the output whose loss is `epsilon`.

        Newton steps improve `start`. Then the signs of the loss minus epsilon at both ends of an
        interval prove that the output lies in it.
        """
        move, power = ball(self._shift_in_scales), arb(self.p)
        aim = ball(epsilon)

        def loss(y: arb) -> arb:
            """Return the difference between the loss at an output and the loss looked for."""
            return (move - y) ** power - abs(y) ** power - aim

        y = arb(start)
        for _ in range(ctx.prec.bit_length() + 2):
            sign = 1 if y > 0 else -1
            slope = power * ((move - y) ** (power - 1) + sign * abs(y) ** (power - 1))
            y = (y + loss(y) / slope).mid()
        for exponent in (8, 24, 48, 80):
            margin = (abs(y) + move) * arb(2) ** (exponent - ctx.prec)
            low, high = y - margin, y + margin
            if loss(low.mid()) > 0 and loss(high.mid()) < 0:
                return low.mid().union(high.mid())
        # No proof at this precision: `float_upper_bound` calls again with more bits.
        return arb(0, math.inf)

    def pieces(self, width: float) -> Pieces:
        """Return intervals of outputs on which losses differ by about `width`, in falling order."""
        move = float(self._shift_in_scales)
        reach = power_tail.quantile_bound(self.p, 1e-41)
        around = np.concatenate((np.linspace(-reach, reach, 4001), np.linspace(0.0, move, 1001)))
        dense = np.union1d(around, np.linspace(-reach, reach, 2001) + move)
        # Exact losses fall. Rounding errors must not make them rise, because they are inverted
        # next.
        losses = np.minimum.accumulate(self._losses_of_outputs(dense))
        last = int(min(losses[0], LARGEST_LOSS) / width)
        aims = np.arange(-last, last + 1) * width
        y = np.unique(np.interp(aims, losses[::-1], dense[::-1]))
        p, q = self._interval_probabilities(y), self._interval_probabilities(y - move)
        ends = np.concatenate(
            ([np.inf], np.minimum.accumulate(self._losses_of_outputs(y)), [-np.inf])
        )
        return Pieces(p, q, ends[1:], ends[:-1])

    def _interval_probabilities(self, ends: Floats) -> Floats:
        """Return the probabilities below, between and above ascending ends.

        Each probability is a difference of tails or of distances from zero, whichever is accurate.
        """
        away = np.abs(ends)
        far = (ends[:-1] * ends[1:] > 0) & (np.minimum(away[:-1], away[1:]) > 0.5)
        # Incomplete gamma functions are slow, so each tail is computed only at the ends of those
        # intervals that need it.
        outer = np.concatenate(([True], far)) | np.concatenate((far, [True]))
        inner = np.concatenate(([False], ~far)) | np.concatenate((~far, [False]))
        beyond, middle = np.zeros_like(ends), np.zeros_like(ends)
        beyond[outer] = power_tail.tail(self.p, away[outer])
        middle[inner] = np.copysign(
            power_tail.probability_from_zero(self.p, away[inner]), ends[inner]
        )
        outside = np.abs(np.diff(beyond))
        inside = np.diff(middle)
        # The array `beyond` has the tail beyond |end|, which is the lower tail only for a negative
        # end.
        first = beyond[0] if ends[0] < 0 else 1 - beyond[0]
        last = beyond[-1] if ends[-1] > 0 else 1 - beyond[-1]
        return np.concatenate(([first], np.where(far, outside, inside), [last]))

    @property
    def rho(self) -> float | None:
        """Return mu^2 / 2 for p = 2, rounded up; None for any other p."""
        mu = self.normal_mu
        return None if mu is None else mu * mu / 2 * (1 + 2.0**-50)

    def renyi_ratio_bound(self, order: float) -> float:
        """Return rho for p = 2, and infinity for any other p, for which no bound is known here."""
        return math.inf if self.rho is None else self.rho

    def renyi(self, order: float) -> float:
        """Return an upper bound of the Rényi divergence of an order above 1, or infinity.

        The divergence follows from the mean of (P/Q)^(order - 1) under P. On narrow intervals,
        chords bound this convex function of P/Q (`_upper_loss_shares`). Beyond these intervals, the
        tilted density falls ever faster, and an exponential function bounds it. The result exceeds
        the divergence by about 1e-5 of it, plus 4e-9 / (order - 1). It is infinite if no bound is
        found.
        """
        move = float(self._shift_in_scales)
        far = self._start_of_exponential_bound(order, move)
        if far > power_tail.quantile_bound(self.p, 1e-280) or move > far:
            return math.inf
        y = np.linspace(-far, far + move, 20001)
        p, q = self._interval_probabilities(y), self._interval_probabilities(y - move)
        loss = self._losses_of_outputs(y)
        share = _upper_loss_shares(p[1:-1], q[1:-1], loss[1:], loss[:-1])
        # The limit of 700 is never reached: (order - 1) loss is at most far^p - 93 at the first
        # output, and far^p is below 645, because of the bound 1e-280 above.
        low, high = (np.exp(np.minimum((order - 1) * end, 700.0)) for end in (loss[1:], loss[:-1]))
        inside = float(np.sum(p[1:-1] * ((1 - share) * low + share * high)))
        slope = order * far ** (self.p - 1) - (order - 1) * (far + move) ** (self.p - 1)
        fall = order * far**self.p - (order - 1) * (far + move) ** self.p
        beyond = power_tail.density(self.p) * math.exp(-fall) / (self.p * slope)
        above = float(p[-1]) * math.exp((order - 1) * float(loss[-1]))
        # The factor covers the errors of the probabilities, which are 1e-12, and of their sums.
        return math.log((inside + beyond + above) * (1 + 2.0**-29)) / (order - 1)

    def _start_of_exponential_bound(self, order: float, move: float) -> float:
        """Return a y from which on the tilted density is below 1e-40 and falls ever faster."""
        far = power_tail.quantile_bound(self.p, 1e-40)
        while True:
            ratio = (1 + move / far) ** max(self.p - 2, 0.0) * (order - 1) / order
            slope = order * far ** (self.p - 1) - (order - 1) * (far + move) ** (self.p - 1)
            fall = order * far**self.p - (order - 1) * (far + move) ** self.p
            # From there on the exponent is convex and rises, so the line with its slope at `far`
            # bounds it. A density of exp(-93) is below 1e-40.
            if (ratio < 1 and slope > 0 and fall > 93) or far > 1e3:
                return far
            far *= 1.1


def _upper_loss_shares(p: Floats, q: Floats, low: Floats, high: Floats) -> Floats:
    """Return the share of the P probability of each interval that gets the loss `high`.

    The rest gets the loss `low`, and the Q probability of the interval stays the same.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # This is `_upper_point_parts` of `privacy.grid`, for ends that are no points of a
        # grid.
        share = (1.0 - np.exp(low) * q / p) / -np.expm1(low - high)
    return np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)


MECHANISM = GeneralizedGaussian
