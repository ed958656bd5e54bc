"""The distribution and privacy loss of offset-symmetric Gaussian noise, in units of its sigma.

The density of Z at z is exp(-z^2 / 2 - r |z|) / N, with N = sqrt(2 pi) exp(r^2 / 2) 2 Q(r). |Z| has
the distribution of a normal variable minus r, under the condition that the variable exceeds r.
Compared with the same noise moved up by d, the loss is d (d / 2 + r) + d |z| for z below 0 and
(d - 2 z)(d + 2 r) / 2 for z between 0 and d. Above d it is the negative of its mirror image. So the
loss falls as z grows. The distribution is log-concave, so the divergence grows with d.

The source is Sadeghi and Korki, "Offset-symmetric Gaussians for differential privacy", eqs. (2),
(9), (56) and Theorem 1; this module derives these results independently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx

from dprelease.numerics.balls import LEAST_FLOAT, ball, float_upper_bound
from dprelease.numerics.normal_tail import ln_erfc_over, mills_ratio
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
