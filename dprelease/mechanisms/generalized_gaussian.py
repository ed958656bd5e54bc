"""Generalized Gaussian mechanism, rounded to the lattice.

Release    q + round(Y), the density of Y proportional to exp(-(|y| / scale)^p), 1 <= p <= 8.
Guarantee  The curve delta(epsilon) of the continuous mechanism; rounding is post-processing. p = 1
           is Laplace noise and pure; every p > 1 has an unbounded loss, so the mechanism is not
           listed as pure. The larger p, the thinner the tails and the steeper the loss.
Source     Liu 2019, arXiv 1602.06028v6, Definitions 4 and 5; delta by the crossing of the loss.
Units      q, Y and scale in lattice steps; scale is sqrt(2) standard deviations at p = 2.

The distribution is log-concave and symmetric: the curve of a shift covers all smaller ones.
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

from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantile
from dprelease.mechanisms.common.shape import Shape
from dprelease.mechanisms.common.variance_bounds import log_concave_moments
from dprelease.numerics import power_tail
from dprelease.numerics.balls import LEAST_FLOAT, ball, least_above
from dprelease.numerics.lattice import Flags
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import LARGEST_LOSS, Floats, Pieces, PrivacyLoss, strictly_below
from dprelease.privacy.losses.two_sided_exponential import ExponentialLoss

TABLE_BELOW = 1024.0
TABLE_ERROR = 2.0**-36
"""Bound on the relative error of a tabulated tail, including the interval width of a word."""

UNSEEN = 800.0
"""|y|^p from which a tail is below the least float."""

NO_TRACE = 1e-40
"""Smaller tails don't change a mean or a variance."""


@dataclass(frozen=True)
class GeneralizedGaussian(SymmetricQuantile):
    """Noise with density proportional to exp(-(|y| / scale)^p), rounded to the nearest step."""

    name: ClassVar[str] = "generalized_gaussian"
    summary: ClassVar[str] = "exp(-|y|^p) noise, rounded; approximate, tails from Laplace's down"
    use: ClassVar[str] = "between Laplace and Gaussian noise, or where far outliers do most harm"
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    shapes: ClassVar[tuple[Shape, ...]] = (Shape("p", "power of the exponent", "1 to 8"),)
    search: ClassVar[tuple[Mapping[str, float], ...]] = tuple(
        {"p": p} for p in (1.5, 1.25, 2.0, 1.0625, 3.0, 4.0, 1.0)
    )
    examples: ClassVar[tuple[Mapping[str, str | float], ...]] = ({"p": 1.5}, {"p": 3.25})
    domains: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (1.0, 8.0)}

    p: float = 2.0

    @property
    def position_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    @cached_property
    def _steepest(self) -> float:
        """Return the slope of the log density, in scales, at a tail certainly below 2**-21."""
        return float(self.p * power_tail.reach(self.p, power_tail.LEAST_TAIL / 2) ** (self.p - 1))

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Bound the relative drop in a block by the steepest slope of the log density."""
        return self._steepest * (size / self.scale)

    def upper_position(self, u: Floats) -> tuple[Floats, Floats]:
        """Return x + 1/2 for the quantile x of large scales; errors may be infinite."""
        position, near = power_tail.quantile(self.p, u)
        position *= self.scale
        position += 0.5
        return position, np.where(near, self.position_error, np.inf)

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return floor(x + 1/2) for the quantile x, from a table of tails at small scales."""
        if self.scale >= TABLE_BELOW:
            return super().upper_quantile(u)
        tails = power_tail.ascending_tails(self.p, self.scale)
        place = np.minimum(np.searchsorted(tails, u, side="right"), len(tails) - 1)
        sure = (u < tails[place] * (1 - TABLE_ERROR)) & (u > tails[place - 1] * (1 + TABLE_ERROR))
        return len(tails) - 1.0 - place, sure

    def upper_tail(self, k: int) -> arb:
        """Return the continuous tail at k - 1/2."""
        return power_tail.tail_ball(self.p, arb(2 * k - 1) / (2 * arb(self.scale)))

    def losses(self, shift: int) -> tuple[PowerLoss | ExponentialLoss, ...]:
        """Return the loss of the continuous noise, which bounds that of the rounded noise."""
        if self.p == 1.0:
            exact_scale = Fraction(self.scale)
            return (ExponentialLoss(exact_scale, exact_scale, shift),)
        return (PowerLoss(self.p, self.scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k), by Euler-Maclaurin where it is long.

        The next term is of relative order scale^-(p + 2).
        """
        if self.scale >= TABLE_BELOW:
            mean = self.scale * math.gamma(2 / self.p) / math.gamma(1 / self.p)
            return mean - power_tail.density(self.p) / (12 * self.scale)
        return 2 * float(np.sum(self._tails()[1]))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(K >= k)."""
        if self.scale >= TABLE_BELOW:
            variance = self.scale**2 * math.gamma(3 / self.p) / math.gamma(1 / self.p)
            return math.sqrt(variance + 1 / 12)
        k, tails = self._tails()
        return math.sqrt(2 * float(np.sum((2 * k - 1) * tails)))

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return a sum of chords above the tails, and 0."""
        return log_concave_moments(self)

    def _tails(self) -> tuple[Floats, Floats]:
        k = np.arange(1.0, self.scale * power_tail.reach(self.p, NO_TRACE) + 2)
        return k, power_tail.tail(self.p, (k - 0.5) / self.scale)


@dataclass(frozen=True)
class PowerLoss(PrivacyLoss):
    """The loss |y - t|^p - |y|^p at y scales, t = shift / scale, p > 1; it falls as y grows."""

    p: float
    scale: float
    shift: int

    @property
    def normal_mu(self) -> float | None:
        """Return shift / standard deviation at p = 2, rounded up; None elsewhere."""
        if self.p != 2.0:
            return None
        exact = Fraction(self.shift) / Fraction(self.scale)
        return math.nextafter(round_up(exact) * math.sqrt(2.0) * (1 + 2.0**-51), math.inf)

    @property
    def _move(self) -> Fraction:
        return Fraction(self.shift) / Fraction(self.scale)

    @cached_property
    def span(self) -> float:
        """Return the loss where P has a tail below 1e-40, up to the largest finite loss."""
        return float(self._losses_at(np.array([-power_tail.reach(self.p, 1e-40)]))[0])

    def _losses_at(self, y: Floats) -> Floats:
        losses: Floats = np.abs(y - float(self._move)) ** self.p - np.abs(y) ** self.p
        return losses

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(Y <= y) - exp(epsilon) P(Y <= y - t) where the loss is epsilon, rounded up.

        Below 0 by symmetry: delta(-e) = 1 - exp(-e) + exp(-e) delta(e).
        """
        edge = strictly_below(epsilon)
        size = abs(edge)
        start = self._crossing(size)
        if edge >= 0 and start is None:
            return LEAST_FLOAT

        def value() -> arb:
            gain = arb(0).union(arb(LEAST_FLOAT)) if start is None else self._gain(start, size)
            return gain if edge >= 0 else -ball(edge).expm1() + ball(edge).exp() * gain

        digits = 0.0 if start is None or start > 0 else 1.5 * (-start) ** self.p
        return min(1.0, least_above(value, 128 + int(digits)))

    def _gain(self, start: float, epsilon: Fraction) -> arb:
        y = self._refine_root(start, epsilon)
        lost = ball(epsilon).exp() * power_tail.tail_ball(self.p, ball(self._move) - y)
        return power_tail.tail_ball(self.p, -y) - lost

    def _crossing(self, size: Fraction) -> float | None:
        """Return about the y <= t/2 whose loss is `size` >= 0; None if its tail underflows.

        The tail is below exp(-|y|^p).
        """
        move, farthest = float(self._move), float(UNSEEN ** (1 / self.p))
        if size > self._loss(-farthest) * (1 + 2.0**-30):
            return None
        aim, low, high = float(size), -farthest, move / 2
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if self._loss(middle) < aim else (middle, high)
        return (low + high) / 2

    def _loss(self, y: float) -> float:
        """Return the loss at y <= t/2, without subtraction of nearly equal powers."""
        move = float(self._move)
        if -y > move:
            return float((-y) ** self.p * math.expm1(self.p * math.log1p(move / -y)))
        return float((move - y) ** self.p - abs(y) ** self.p)

    def _refine_root(self, start: float, epsilon: Fraction) -> arb:
        """Return a ball that contains the crossing: Newton steps, then signs on either side."""
        move, power = ball(self._move), arb(self.p)
        aim = ball(epsilon)

        def loss(y: arb) -> arb:
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
        return arb(0, math.inf)

    def pieces(self, width: float) -> Pieces:
        """Return cells of outputs whose losses differ by about `width`; losses fall along them."""
        move = float(self._move)
        reach = power_tail.reach(self.p, 1e-41)
        around = np.concatenate((np.linspace(-reach, reach, 4001), np.linspace(0.0, move, 1001)))
        dense = np.union1d(around, np.linspace(-reach, reach, 2001) + move)
        losses = np.minimum.accumulate(self._losses_at(dense))
        last = int(min(losses[0], LARGEST_LOSS) / width)
        aims = np.arange(-last, last + 1) * width
        y = np.unique(np.interp(aims, losses[::-1], dense[::-1]))
        p, q = self._between(y), self._between(y - move)
        ends = np.concatenate(([np.inf], np.minimum.accumulate(self._losses_at(y)), [-np.inf]))
        return Pieces(p, q, ends[1:], ends[:-1])

    def _between(self, ends: Floats) -> Floats:
        """Return probabilities below, between and above ascending ends, from the accurate side."""
        away = np.abs(ends)
        far = (ends[:-1] * ends[1:] > 0) & (np.minimum(away[:-1], away[1:]) > 0.5)
        # Incomplete gamma functions are slow: each tail is computed only where an interval needs
        # it, and at both ends.
        outer = np.concatenate(([True], far)) | np.concatenate((far, [True]))
        inner = np.concatenate(([False], ~far)) | np.concatenate((~far, [False]))
        beyond, middle = np.zeros_like(ends), np.zeros_like(ends)
        beyond[outer] = power_tail.tail(self.p, away[outer])
        middle[inner] = np.copysign(
            power_tail.probability_from_zero(self.p, away[inner]), ends[inner]
        )
        outside = np.abs(np.diff(beyond))
        inside = np.diff(middle)
        first = beyond[0] if ends[0] < 0 else 1 - beyond[0]
        last = beyond[-1] if ends[-1] > 0 else 1 - beyond[-1]
        return np.concatenate(([first], np.where(far, outside, inside), [last]))

    @property
    def rho(self) -> float | None:
        """Return mu^2 / 2 at p = 2, rounded up; None elsewhere."""
        mu = self.normal_mu
        return None if mu is None else mu * mu / 2 * (1 + 2.0**-50)

    def concentration_beyond(self, order: float) -> float:
        """Return infinity unless p = 2: no bound is known here."""
        return math.inf if self.rho is None else self.rho

    def renyi(self, order: float) -> float:
        """Return an upper bound of the divergence of an order > 1; infinity where none is found.

        The mean of (P/Q)^(order - 1) under P, a convex function of P/Q, is bounded by chords over
        narrow cells (`_split`), and by an exponential outside them, where the tilted density falls
        ever faster. The bound exceeds the true value by about 1e-5 of it and 4e-9 / (order - 1).
        """
        move = float(self._move)
        far = self._tail_start(order, move)
        if far > power_tail.reach(self.p, 1e-280) or move > far:
            return math.inf
        y = np.linspace(-far, far + move, 20001)
        p, q = self._between(y), self._between(y - move)
        loss = self._losses_at(y)
        share = _split(p[1:-1], q[1:-1], loss[1:], loss[:-1])
        low, high = (np.exp(np.minimum((order - 1) * end, 700.0)) for end in (loss[1:], loss[:-1]))
        inside = float(np.sum(p[1:-1] * ((1 - share) * low + share * high)))
        slope = order * far ** (self.p - 1) - (order - 1) * (far + move) ** (self.p - 1)
        fall = order * far**self.p - (order - 1) * (far + move) ** self.p
        beyond = power_tail.density(self.p) * math.exp(-fall) / (self.p * slope)
        above = float(p[-1]) * math.exp((order - 1) * float(loss[-1]))
        return math.log((inside + beyond + above) * (1 + 2.0**-29)) / (order - 1)

    def _tail_start(self, order: float, move: float) -> float:
        """Return a y from which on the tilted density falls ever faster and is below 1e-40."""
        far = power_tail.reach(self.p, 1e-40)
        while True:
            ratio = (1 + move / far) ** max(self.p - 2, 0.0) * (order - 1) / order
            slope = order * far ** (self.p - 1) - (order - 1) * (far + move) ** (self.p - 1)
            fall = order * far**self.p - (order - 1) * (far + move) ** self.p
            if (ratio < 1 and slope > 0 and fall > 93) or far > 1e3:
                return far
            far *= 1.1


def _split(p: Floats, q: Floats, low: Floats, high: Floats) -> Floats:
    """Return the share of the P probability of a cell for `high` that preserves Q's."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (1.0 - np.exp(low) * q / p) / -np.expm1(low - high)
    return np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)


MECHANISM = GeneralizedGaussian
