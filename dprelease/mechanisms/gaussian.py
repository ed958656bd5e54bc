"""Gaussian mechanism, rounded to whole steps.

Release    q + round(Y), with Y ~ N(0, scale^2), drawn independently for every cell.
Guarantee  The curve delta(epsilon) of the continuous mechanism; rounding is post-processing.
Source     Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8.
Units      q, Y and scale in steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from flint import arb, ctx

from dprelease.mechanisms.base import (
    QUANTILE_ERROR,
    SymmetricQuantileMechanism,
    interval_upper_float,
    normal_relative_drop,
)
from dprelease.mechanisms.common.variance_bounds import log_concave_variance_bound
from dprelease.mechanisms.randomizer import AutoRule
from dprelease.numerics.balls import ball
from dprelease.numerics.normal_tail import erfc, normal_quantile
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss
from dprelease.privacy.losses.normal import normal_delta

LEAST_CLOSED_FORM_SCALE = 8.0
"""Scale from which on a closed formula bounds the variance."""

NEGLIGIBLE_DEVIATIONS = 13.5
"""Number of standard deviations that a normal variable exceeds with probability below 1e-40."""


@dataclass(frozen=True)
class Gaussian(SymmetricQuantileMechanism):
    """Normal noise of standard deviation `scale` steps, rounded to the nearest step."""

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "normal noise rounded to the lattice; approximate, thin tails"
    use_case: ClassVar[str] = "many answers under an (epsilon, delta) budget"
    auto_rule = AutoRule(last_resort=True, integer_variant="discrete_gaussian")
    pure: ClassVar[bool] = False
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 2
    renyi_from_l2_norm: ClassVar[bool] = True

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Return bounds of the relative drop of probabilities within a segment of integers.

        They follow from the slope of the log density at the far end of each segment.
        """
        return normal_relative_drop(self.scale, 0.0, first, size)

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2, where the quantile x is scale times the standard normal quantile."""
        position = normal_quantile(u)
        position *= -self.scale
        position += 0.5
        return position, self.typical_quantile_error

    def upper_tail(self, k: int) -> arb:
        """Return erfc((k - 1/2) / (scale sqrt 2)) / 2."""
        return (arb(2 * k - 1) / (2 * arb(self.scale) * arb(2).sqrt())).erfc() / 2

    def losses(self, shift: int) -> tuple[GaussianLoss, ...]:
        """Return the loss of the continuous noise, which bounds the loss of the rounded noise."""
        # The curve of a normal loss rises with mu, so mu is rounded up.
        return (GaussianLoss(round_up(Fraction(shift) / Fraction(self.scale))),)

    def federated(self, parties: int) -> Self:
        """Return the noise that each of `parties` parties adds, so that their sum has this scale.

        The scale of a share is scale / sqrt(parties), rounded up. The sum of shares has exactly
        this distribution only before rounding.

        Raises ValueError if `parties` is below 1. Raises BudgetError: DP-MECH-001 if the scale of a
        share can't be certified.
        """
        if parties < 1:
            raise ValueError("at least one party adds noise")
        with ctx.workprec(128):
            # A float below the exact share would give the sum less than its scale, and cost more
            # than was charged.
            return type(self)(interval_upper_float(ball(self.scale) / arb(parties).sqrt()))

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k).

        For large scales the Euler-Maclaurin formula replaces the sum.
        """
        if self.scale > 64:  # the first omitted term is below 1e-6 of the last term
            return self.scale * math.sqrt(2 / math.pi) - 1 / (
                12 * self.scale * math.sqrt(2 * math.pi)
            )
        return float(np.sum(self._tails_by_step()[1]))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(K >= k).

        For large scales it is the square root of scale^2 + 1/12, up to exp(-2 pi^2 scale^2).
        """
        if self.scale > 64:
            return math.sqrt(self.scale**2 + 1 / 12)
        k, tails = self._tails_by_step()
        return math.sqrt(float(np.sum((2 * k - 1) * tails)))

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return a bound of the variance, and the mean 0.

        By Poisson's formula the variance is scale^2 + 1/12 plus the sum over n >= 1 of (-1)^n
        (4 scale^2 + 1 / (pi n)^2) exp(-2 (pi n scale)^2). This sum is below 2^-1000 from a scale of
        8 on, so the bound is scale^2 + 1/12 plus a tiny margin. For smaller scales, the bound is a
        sum of chords.
        """
        if self.scale < LEAST_CLOSED_FORM_SCALE:
            return log_concave_variance_bound(self)
        return Fraction(self.scale) ** 2 + Fraction(1, 12) + Fraction(1, 2**900), Fraction(0)

    def _tails_by_step(self) -> tuple[Floats, Floats]:
        """Return the positive steps, and the two-sided tail probability from each step on."""
        k = np.arange(1.0, int(40 * self.scale) + 2)
        return k, erfc((k - 0.5) / (self.scale * math.sqrt(2)))


def normal_interval_probability(low: Floats, high: Floats) -> Floats:
    """Return P(low < Z <= high) for a standard normal Z, with a relative error below 2**-32."""
    # Upper tails are mirrored: differences of probabilities near 1 would have no relative accuracy.
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    width, middle = b - a, (a + b) / 2
    density = np.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi)
    with np.errstate(invalid="ignore", over="ignore"):
        narrow = density * width * (1 + (middle**2 - 1) * width**2 / 24)
        # There the difference of two values of the distribution function loses digits. The midpoint
        # rule with a second derivative has a relative error of the order of (width middle)^4 / 1920
        # < 2^-32.
        small = (width < 1e-3) & (width * np.abs(middle) < 1e-2)
    return np.where(small, narrow, _normal_cdf(b) - _normal_cdf(a))


def _normal_cdf(z: Floats) -> Floats:
    """Return P(Z <= z) for a standard normal Z."""
    below: Floats = np.float64(0.5) * erfc(z * -math.sqrt(0.5))
    return below


@dataclass(frozen=True)
class GaussianLoss(MonotoneLoss):
    """The loss of normal noise against the same noise moved by `mu` standard deviations."""

    mu: float

    @property
    def normal_mu(self) -> float:
        """Return the shift in standard deviations."""
        return self.mu

    @property
    def largest_relevant_loss(self) -> float:
        """Return the loss at 13.5 standard deviations."""
        return self.mu**2 / 2 + NEGLIGIBLE_DEVIATIONS * self.mu

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return delta from the closed formula of Balle and Wang."""
        return normal_delta(self.mu, epsilon)

    @property
    def rho(self) -> float:
        """Return mu^2 / 2, rounded up."""
        return round_up(Fraction(self.mu) ** 2 / 2)

    def renyi_ratio_bound(self, order: float) -> float:
        """Return mu^2 / 2, rounded up, which is the ratio D_a / a of every order a."""
        return self.rho

    def renyi(self, order: float) -> float:
        """Return order mu^2 / 2, rounded up, the Rényi divergence of a normal loss."""
        return round_up(Fraction(order) * Fraction(self.mu) ** 2 / 2)

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals.

        The loss has the distribution N(mu^2/2, mu^2) under P and N(-mu^2/2, mu^2) under Q.
        """
        ends = np.concatenate(([-np.inf], edges, [np.inf]))
        middle = ends / self.mu
        p = normal_interval_probability(middle[:-1] - self.mu / 2, middle[1:] - self.mu / 2)
        q = normal_interval_probability(middle[:-1] + self.mu / 2, middle[1:] + self.mu / 2)
        return p, q


MECHANISM = Gaussian
