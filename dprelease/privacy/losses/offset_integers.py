"""The privacy loss of integer noise with weights exp(-(k / scale)^2 / 2 - ratio |k| / scale).

At the integer k it equals the loss in `offset_gaussian` at k / scale; only probabilities differ.
Ratio 0 is the discrete Gaussian distribution: Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5,
Theorem 7. The distribution is log-concave, so the divergence grows with the shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from dprelease.numerics import theta
from dprelease.numerics.balls import LEAST_FLOAT, ball, least_above
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, strictly_below
from dprelease.privacy.losses.offset_gaussian import UNSEEN, OffsetGaussianLoss, peak, side_mass


@dataclass(frozen=True)
class OffsetIntegerLoss(MonotoneLoss):
    """The loss of noise of this scale and ratio against itself moved up by `shift` steps."""

    scale: float
    ratio: float
    shift: int

    @property
    def continuous(self) -> OffsetGaussianLoss:
        """Return the loss at real outputs, in scales."""
        return OffsetGaussianLoss(self.shift / Fraction(self.scale), Fraction(self.ratio))

    @property
    def span(self) -> float:
        """Return the loss one step past the 1e-40 quantile of the lower tail."""
        return self.continuous.span + float(self.continuous.d) / self.scale

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(K <= k) - exp(epsilon) P(K <= k - shift), k the last with a larger loss."""
        edge = strictly_below(epsilon)
        cut = self.continuous.cut(edge)
        last = math.ceil(cut * Fraction(self.scale)) - 1
        far = -last / Fraction(self.scale)
        # P(K >= j) <= w(j), for w(j + i) <= w(j) w(i).
        exponent = far * (far / 2 + Fraction(self.ratio))
        if far > 0 and exponent > UNSEEN:
            return LEAST_FLOAT

        def value() -> arb:
            return self._up_to(last) - ball(edge).exp() * self._up_to(last - self.shift)

        return min(1.0, least_above(value, 96 + int(3 * exponent / 2 if far > 0 else 0)))

    def _up_to(self, k: int) -> arb:
        """Return a ball around P(K <= k)."""
        if k < 0:
            return theta.upper_tail(self.scale, self.ratio, -k)
        return 1 - theta.upper_tail(self.scale, self.ratio, k + 1)

    def renyi(self, order: float) -> float:
        """Return the divergence of an order above 1, rounded up: three sums of weights.

        Over exp((order - 1) kink), the tilted weights below zero have the ratio ratio - (order - 1)
        d, those up to the shift ratio + (order - 1)(d + 2 ratio), those above it
        ratio + (order - 1) d: eq. (56) of Sadeghi and Korki with sums for integrals.
        """
        a = Fraction(order) - 1
        loss = self.continuous
        slope = loss.r + a * (loss.d + 2 * loss.r)

        def weight(ratio: Fraction, k: int) -> arb:
            return theta.weight_from(self.scale, ratio, k)

        def value() -> arb:
            below_zero = 1 + weight(loss.r - a * loss.d, 1)
            between = weight(slope, 1) - weight(slope, self.shift)
            tilt = ball(a * (loss.d**2 - 2 * loss.kink)).exp()
            beyond = tilt * weight(loss.r + a * loss.d, self.shift)
            moment = (below_zero + between + beyond) / theta.total(self.scale, self.ratio)
            return ball(loss.kink) + moment.log() / ball(a)

        return least_above(value, 128)

    @property
    def rho(self) -> float | None:
        """Return d^2 / 2, rounded up, at ratio 0: ibid., Theorem 4."""
        return round_up(self.continuous.d**2 / 2) if self.ratio == 0 else None

    def concentration_beyond(self, order: float) -> float:
        """Return d^2 / 2 + C / (a (a - 1)), a the order.

        Weights below zero, tilted, are at most exp(m^2 / 2), m = (a - 1) d - ratio, times those of
        ratio 0 around m, whose sum is at most scale sqrt(2 pi) + 1; the others are at most the
        untilted ones. So C = ratio^2 / 2 + ln(2 (scale sqrt(2 pi) + 1) / total + 1).
        """
        d, r = float(self.continuous.d), self.ratio
        weights = theta.size(self.scale, self.ratio)
        above = (math.sqrt(2 * math.pi) + 1 / self.scale) / weights
        rest = r * r / 2 + math.log(2 * above + 1)
        return (d * d / 2 + rest / (order * (order - 1))) * (1 + 2.0**-40)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return sums of probabilities, term by term or by the Euler-Maclaurin formula."""
        if self.scale < theta.TABLE_BELOW:
            return self._sums_of_atoms(edges)
        ends = np.ceil(self.continuous.cuts(edges) * self.scale) - 0.5
        ends = np.concatenate(([np.inf], ends, [-np.inf]))
        return self._between(ends), self._between(ends - self.shift)

    def _sums_of_atoms(self, edges: Floats) -> tuple[Floats, Floats]:
        k, p, q = self._relevant_integers()
        loss = self.continuous.at(k / self.scale)
        place, bins = np.searchsorted(edges, loss), len(edges) + 1
        return _sum_by_bin(place, p, bins), _sum_by_bin(place, q, bins)

    def _relevant_integers(self) -> tuple[Floats, Floats, Floats]:
        """Return the integers with a relevant probability, and both probabilities."""
        mass = theta.weights(self.scale, self.ratio)
        reach = len(mass) - 1
        k = np.arange(-reach, reach + min(self.shift, 2 * reach) + 1, dtype=np.int64)
        if self.shift > 2 * reach:  # the two distributions have no relevant overlap
            k = np.concatenate((k[: 2 * reach + 1], k[: 2 * reach + 1] + self.shift))
        p = np.where(np.abs(k) <= reach, mass[np.minimum(np.abs(k), reach)], 0.0)
        away = np.abs(k - self.shift)
        q = np.where(away <= reach, mass[np.minimum(away, reach)], 0.0)
        return k.astype(np.float64), p, q

    def _between(self, ends: Floats) -> Floats:
        """Return P(ends[i + 1] < K < ends[i]), `ends` descending and halfway between integers."""
        weight = theta.size(self.scale, self.ratio) * peak(self.ratio)
        zero = (ends[:-1] > 0) & (ends[1:] < 0)
        both = self._side(ends[1:], ends[:-1]) + self._side(-ends[:-1], -ends[1:])
        masses: Floats = (both + zero * (peak(self.ratio) / self.scale)) / weight
        return masses

    def _side(self, low: Floats, high: Floats) -> Floats:
        """Return h times the sum of phi over the positive integers between, over 2 Q(ratio)."""
        first = np.maximum(low, 0.5) / self.scale
        last = np.maximum(high, 0.5) / self.scale
        rest = self._series_terms(last) - self._series_terms(first)
        return np.maximum(side_mass(first, last, self.ratio) + rest, 0.0)

    def _series_terms(self, y: Floats) -> Floats:
        """Return h^2/24 a phi(a) - 7 h^4/5760 (a^3 - 3a) phi(a), a = y + ratio, over 2 Q(ratio)."""
        h2 = self.scale**-2
        near = np.minimum(y, 60.0)  # zero there; larger values would be infinity times zero
        a = near + self.ratio
        density = np.exp(-near * (near / 2 + self.ratio)) * peak(self.ratio)
        terms: Floats = density * a * (h2 / 24 - 7 * h2 * h2 / 5760 * (a * a - 3))
        return terms


def _sum_by_bin(place: Integers, mass: Floats, bins: int) -> Floats:
    return np.bincount(place, mass, bins).astype(np.float64)
