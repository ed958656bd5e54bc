"""Distribution and privacy loss of offset-symmetric Gaussian noise, continuous and on the integers.

**Continuous**, in units of sigma: the density of Z at z is exp(-z^2 / 2 - r |z|) / N, with N =
sqrt(2 pi) exp(r^2 / 2) 2 Q(r). |Z| has the distribution of a normal variable minus r, under the
condition that the variable exceeds r. Compared with the same noise moved up by d, the loss is d (d
/ 2 + r) + d |z| for z below 0 and (d - 2 z)(d + 2 r) / 2 for z between 0 and d. Above d it is the
negative of its mirror image. So the loss falls as z grows. The distribution is log-concave, so the
divergence grows with d.

The source is Sadeghi and Korki, "Offset-symmetric Gaussians for differential privacy", eqs. (2),
(9), (56) and Theorem 1; this module derives these results independently.

**On the integers**, with weights exp(-(k / scale)^2 / 2 - ratio |k| / scale): the loss of the
integer k is the loss of k / scale of the continuous noise; only the probabilities differ. For ratio
0 the noise has the discrete Gaussian distribution (Canonne, Kamath and Steinke 2020, arXiv
2004.00010v5, Theorem 7). The distribution is log-concave, so the divergence grows with the shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx

from dprelease.numerics import theta
from dprelease.numerics.balls import LEAST_FLOAT, ball, float_upper_bound
from dprelease.numerics.lattice import Integers
from dprelease.numerics.normal_tail import ln_erfc_over, mills_ratio
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, epsilon_lower_bound

ROOT = math.sqrt(2.0)
TAIL_EXPONENT = 186.0
"""Twice the exponent of the density beyond which the tail probability is below 1e-40."""

NARROW_WIDTH = 2.0**-8
UNDERFLOW_EXPONENT = 760
"""Exponent of the density at which a tail probability falls below the least float."""


def upper_tail_interval(z: arb, r: arb) -> arb:
    """Return an interval (ball) around P(Z > z) = Q(z + r) / (2 Q(r)) for z >= 0 (eq. 2)."""
    root = arb(2).sqrt()
    return ((z + r) / root).erfc() / (2 * (r / root).erfc())


def log_upper_tail(z: Floats, r: float) -> Floats:
    """Return ln(2 P(Z > z)) for z (n,) >= 0."""
    logarithm = np.zeros_like(z)
    beyond = z > 0
    logarithm[beyond] = ln_erfc_over((z[beyond] + r) / ROOT, r / ROOT)
    return logarithm


def side_probability(low: Floats, high: Floats, r: float) -> Floats:
    """Return P(low < Z <= high) for 0 <= low <= high, with a relative error below 2**-32."""
    width, middle = high - low, (low + high) / 2
    norm = 1.0 / density_at_zero(r)
    with np.errstate(invalid="ignore", over="ignore"):
        slope = middle + r
        bend = 1 + width**2 * (slope**2 - 1) / 24
        narrow = np.exp(-middle * (middle / 2 + r)) / norm * width * bend
        first = log_upper_tail(low, r)
        wide = np.exp(first) / 2 * -np.expm1(log_upper_tail(high, r) - first)
    # On narrow intervals the difference of two tails loses digits, and elsewhere the midpoint rule
    # is too coarse.
    use = width * (1 + low + r) < NARROW_WIDTH
    return np.where(use, narrow, np.where(np.isinf(high), np.exp(first) / 2, wide))


def interval_probability(low: Floats, high: Floats, r: float) -> Floats:
    """Return P(low < Z <= high) for any low <= high."""
    above = side_probability(np.maximum(low, 0.0), np.maximum(high, 0.0), r)
    return above + side_probability(np.maximum(-high, 0.0), np.maximum(-low, 0.0), r)


def moments(r: float) -> tuple[float, float]:
    """Return E |Z| = h - r and E Z^2 = 1 + r^2 - r h, with h = phi(r) / Q(r) (eq. 9)."""
    with ctx.workprec(200):
        exact, hazard = arb(r), _hazard(r)
        return float(hazard - exact), float(1 + exact**2 - exact * hazard)


@lru_cache(maxsize=256)
def density_at_zero(r: float) -> float:
    """Return the density at zero, phi(r) / (2 Q(r)), accurate to about the last bit."""
    with ctx.workprec(200):
        return float(_hazard(r) / 2)


def _hazard(r: float) -> arb:
    """Return an interval (ball) around phi(r) / Q(r)."""
    exact = arb(r)
    return (-(exact**2) / 2).exp() * (2 / arb.pi()).sqrt() / (exact / arb(2).sqrt()).erfc()


def negligible_above(r: float) -> float:
    """Return a z for which P(Z > z) and P(Z < -z) are below 1e-40."""
    return math.sqrt(r * r + TAIL_EXPONENT) - r


@dataclass(frozen=True)
class OffsetGaussianLoss(MonotoneLoss):
    """The loss of noise with offset `r` against the same noise moved up by `d`, both in sigmas."""

    d: Fraction
    r: Fraction

    @property
    def loss_at_zero(self) -> Fraction:
        """Return the loss d (d / 2 + r) of the output 0."""
        return self.d * (self.d / 2 + self.r)

    @property
    def largest_relevant_loss(self) -> float:
        """Return the loss of an output whose lower tail has a probability of at most 1e-40."""
        return float(self.loss_at_zero) + float(self.d) * negligible_above(float(self.r))

    def output_of_loss(self, edge: Fraction) -> Fraction:
        """Return the output z whose loss is `edge`."""
        if edge >= self.loss_at_zero:
            return (self.loss_at_zero - edge) / self.d
        if edge <= -self.loss_at_zero:
            return self.d - (self.loss_at_zero + edge) / self.d
        return self.d / 2 - edge / (self.d + 2 * self.r)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(Z < z) - exp(epsilon) P(Z + d < z) for the output z with loss epsilon."""
        edge = epsilon_lower_bound(epsilon)
        z = self.output_of_loss(edge)
        # Delta is at most P(Z < z), which is below exp(-760) and so below the least float.
        if z < 0 and -z * (-z / 2 + self.r) > UNDERFLOW_EXPONENT:
            return LEAST_FLOAT

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            return self._probability_below(z) - ball(edge).exp() * self._probability_below(
                z - self.d
            )

        return min(1.0, float_upper_bound(delta_interval))

    def _probability_below(self, z: Fraction) -> arb:
        """Return an interval (ball) of the probability of outputs below z."""
        r = ball(self.r)
        return upper_tail_interval(ball(-z), r) if z <= 0 else 1 - upper_tail_interval(ball(z), r)

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals, from the outputs at the ends of intervals."""
        z = self.outputs_of_losses(edges)
        ends = np.concatenate(([np.inf], z, [-np.inf]))
        d, r = float(self.d), float(self.r)
        return interval_probability(ends[1:], ends[:-1], r), interval_probability(
            ends[1:] - d, ends[:-1] - d, r
        )

    def loss_at(self, z: Floats) -> Floats:
        """Return the losses of outputs as floats."""
        d, r = float(self.d), float(self.r)
        losses: Floats = d * (d / 2 - z) + r * (np.abs(z - d) - np.abs(z))
        return losses

    def outputs_of_losses(self, edges: Floats) -> Floats:
        """Return the outputs whose losses are `edges`, as floats."""
        d, r, loss_at_zero = float(self.d), float(self.r), float(self.loss_at_zero)
        inner = d / 2 - edges / (d + 2 * r)
        outer = (loss_at_zero - np.abs(edges)) / d
        crossings = np.where(
            edges >= loss_at_zero, outer, np.where(edges <= -loss_at_zero, d - outer, inner)
        )
        return np.asarray(crossings, dtype=np.float64)

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up (eq. 56)."""
        a = Fraction(order)

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            d = ball(self.d)
            lower = _tail_integral(self.r - (a - 1) * self.d)
            slope = self.r + (a - 1) * (self.d + 2 * self.r)
            shrink = (-d * (d / 2 + ball(slope))).exp()
            middle = _tail_integral(slope) - shrink * _tail_integral(slope + self.d)
            upper = (-ball((2 * a - 1) * self.loss_at_zero)).exp() * _tail_integral(
                self.r + a * self.d
            )
            total = (lower + middle + upper) / (2 * _tail_integral(self.r))
            return ball(self.loss_at_zero) + total.log() / ball(a - 1)

        return float_upper_bound(divergence_interval, 256)

    def renyi_ratio_bound(self, order: float) -> float:
        """Return the bound d^2 / 2 + C / (a (a - 1)) for the order a.

        The number C is r^2 / 2 - ln erfcx(r / sqrt 2) + ln 2. The integral below zero is at most
        exp(m^2 / 2) sqrt(2 pi), with m = (a - 1) d - r, and the integrals above zero are together
        at most as large. The norm N is sqrt(2 pi) erfcx(r / sqrt 2), which is one over the density
        at zero (Theorem 2).
        """
        d, r = float(self.d), float(self.r)
        rest = r * r / 2 + math.log(2 * math.sqrt(2 * math.pi) * density_at_zero(r))
        # Its second term falls with the order, so the bound holds for all higher orders.
        return (d * d / 2 + rest / (order * (order - 1))) * (1 + 2.0**-40)


def _tail_integral(x: Fraction) -> arb:
    """Return an interval (ball) around the integral over u > 0 of exp(-u^2 / 2 - x u)."""
    return mills_ratio(ball(x))


@dataclass(frozen=True)
class OffsetIntegerLoss(MonotoneLoss):
    """The loss of integer noise against the same noise moved up by `shift` steps."""

    scale: float
    ratio: float
    shift: int

    @property
    def continuous(self) -> OffsetGaussianLoss:
        """Return the loss of the continuous distribution, for outputs in scales."""
        return OffsetGaussianLoss(self.shift / Fraction(self.scale), Fraction(self.ratio))

    @property
    def largest_relevant_loss(self) -> float:
        """Return the loss one step below the output whose lower tail is 1e-40."""
        return self.continuous.largest_relevant_loss + float(self.continuous.d) / self.scale

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(K <= k) - exp(epsilon) P(K <= k - shift).

        The integer k is the largest one with a loss above epsilon.
        """
        edge = epsilon_lower_bound(epsilon)
        cut = self.continuous.output_of_loss(edge)
        # The loss falls, so integers below the cut have a loss above epsilon. One exactly at the
        # cut adds nothing to delta.
        last = math.ceil(cut * Fraction(self.scale)) - 1
        far = -last / Fraction(self.scale)
        # With w the weight, P(K >= j) <= w(j), because w(j + i) <= w(j) w(i).
        exponent = far * (far / 2 + Fraction(self.ratio))
        if far > 0 and exponent > UNDERFLOW_EXPONENT:
            return LEAST_FLOAT

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            return self._probability_up_to(last) - ball(edge).exp() * self._probability_up_to(
                last - self.shift
            )

        return min(
            1.0, float_upper_bound(delta_interval, 96 + int(3 * exponent / 2 if far > 0 else 0))
        )

    def _probability_up_to(self, k: int) -> arb:
        """Return an interval (ball) around P(K <= k)."""
        if k < 0:
            return theta.upper_tail(self.scale, self.ratio, -k)
        return 1 - theta.upper_tail(self.scale, self.ratio, k + 1)

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up, from three sums of weights.

        All tilted weights are divided by exp((order - 1) loss_at_zero). Below zero they have the
        ratio ratio - (order - 1) d, from zero to the shift ratio + (order - 1)(d + 2 ratio), and
        above the shift ratio + (order - 1) d. This is eq. (56) of Sadeghi and Korki
        with sums in place of integrals.
        """
        a = Fraction(order) - 1
        loss = self.continuous
        slope = loss.r + a * (loss.d + 2 * loss.r)

        def weight(ratio: Fraction, k: int) -> arb:
            """Return an interval (ball) of the weight of all integers from k on, for this ratio."""
            return theta.weight_from(self.scale, ratio, k)

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            below_zero = 1 + weight(loss.r - a * loss.d, 1)
            # Both weights are sums to infinity, so their difference is the sum over 1 to shift - 1.
            between = weight(slope, 1) - weight(slope, self.shift)
            tilt = ball(a * (loss.d**2 - 2 * loss.loss_at_zero)).exp()
            beyond = tilt * weight(loss.r + a * loss.d, self.shift)
            moment = (below_zero + between + beyond) / theta.total_weight(self.scale, self.ratio)
            return ball(loss.loss_at_zero) + moment.log() / ball(a)

        return float_upper_bound(divergence_interval, 128)

    @property
    def rho(self) -> float | None:
        """Return d^2 / 2, rounded up, for ratio 0, else None.

        The rho is from Theorem 4 of Canonne, Kamath and Steinke.
        """
        return round_up(self.continuous.d**2 / 2) if self.ratio == 0 else None

    def renyi_ratio_bound(self, order: float) -> float:
        """Return the bound d^2 / 2 + C / (a (a - 1)) for the order a.

        The tilted weights below zero are at most exp(m^2 / 2), with m = (a - 1) d - ratio, times
        the weights of ratio 0 around m, whose sum is at most scale sqrt(2 pi) + 1. The other tilted
        weights are at most the untilted weights. So C = ratio^2 / 2 + ln(2 (scale sqrt(2 pi) + 1) /
        total + 1).
        """
        d, r = float(self.continuous.d), self.ratio
        weights = theta.weights_per_scale(self.scale, self.ratio)
        above = (math.sqrt(2 * math.pi) + 1 / self.scale) / weights
        rest = r * r / 2 + math.log(2 * above + 1)
        return (d * d / 2 + rest / (order * (order - 1))) * (1 + 2.0**-40)

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals.

        At small scales they are sums over integers, and at large scales the Euler-Maclaurin formula
        replaces the sums.
        """
        if self.scale < theta.TABLE_BELOW:
            return self._sums_over_integers(edges)
        # Halfway between integers, so that no integer lies on an end, whatever way its float is
        # rounded.
        ends = np.ceil(self.continuous.outputs_of_losses(edges) * self.scale) - 0.5
        ends = np.concatenate(([np.inf], ends, [-np.inf]))
        return self._probabilities_between(ends), self._probabilities_between(ends - self.shift)

    def _sums_over_integers(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return both probabilities of the losses between neighbouring edges."""
        k, p, q = self._relevant_integers()
        loss = self.continuous.loss_at(k / self.scale)
        bin_of_integer, bins = np.searchsorted(edges, loss), len(edges) + 1
        return _sum_by_bin(bin_of_integer, p, bins), _sum_by_bin(bin_of_integer, q, bins)

    def _relevant_integers(self) -> tuple[Floats, Floats, Floats]:
        """Return the integers with a relevant probability under P or Q, and both probabilities."""
        probabilities = theta.point_probabilities(self.scale, self.ratio)
        largest = len(probabilities) - 1
        k = np.arange(-largest, largest + min(self.shift, 2 * largest) + 1, dtype=np.int64)
        if self.shift > 2 * largest:  # the two distributions have no relevant overlap
            k = np.concatenate((k[: 2 * largest + 1], k[: 2 * largest + 1] + self.shift))
        p = np.where(np.abs(k) <= largest, probabilities[np.minimum(np.abs(k), largest)], 0.0)
        distance = np.abs(k - self.shift)
        q = np.where(distance <= largest, probabilities[np.minimum(distance, largest)], 0.0)
        return k.astype(np.float64), p, q

    def _probabilities_between(self, ends: Floats) -> Floats:
        """Return P(ends[i + 1] < K < ends[i]) for each i.

        The numbers in `ends` are in falling order, and lie halfway between integers.
        """
        weight = theta.weights_per_scale(self.scale, self.ratio) * density_at_zero(self.ratio)
        zero = (ends[:-1] > 0) & (ends[1:] < 0)
        both = self._positive_sum(ends[1:], ends[:-1]) + self._positive_sum(-ends[:-1], -ends[1:])
        masses: Floats = (both + zero * (density_at_zero(self.ratio) / self.scale)) / weight
        return masses

    def _positive_sum(self, low: Floats, high: Floats) -> Floats:
        """Return h / (2 Q(ratio)) times the sum of phi over positive integers.

        The integers are those between `low` and `high`.
        """
        first = np.maximum(low, 0.5) / self.scale
        last = np.maximum(high, 0.5) / self.scale
        rest = self._series_terms(last) - self._series_terms(first)
        return np.maximum(side_probability(first, last, self.ratio) + rest, 0.0)

    def _series_terms(self, y: Floats) -> Floats:
        """Return the terms of the Euler-Maclaurin formula at y, divided by 2 Q(ratio).

        With a = y + ratio they are h^2/24 a phi(a) - 7 h^4/5760 (a^3 - 3a) phi(a).
        """
        h2 = self.scale**-2
        # The terms are zero above 60, and infinity times zero would be undefined.
        near = np.minimum(y, 60.0)
        a = near + self.ratio
        density = np.exp(-near * (near / 2 + self.ratio)) * density_at_zero(self.ratio)
        terms: Floats = density * a * (h2 / 24 - 7 * h2 * h2 / 5760 * (a * a - 3))
        return terms


def _sum_by_bin(bin_of_integer: Integers, probabilities: Floats, bins: int) -> Floats:
    return np.bincount(bin_of_integer, probabilities, bins).astype(np.float64)
