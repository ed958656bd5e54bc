"""Discrete Laplace mechanism (two-sided geometric).

Release    q + K, with P(K = k) proportional to exp(-|k| / scale), independently for every cell.
Guarantee  One cell that moves by at most D steps has a privacy loss of at most D / scale.
Source     Ghosh, Roughgarden and Sundararajan 2009, arXiv 0811.2841v3, Definition 2.1.
Units      q, K and scale in steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb, ctx

from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantileMechanism
from dprelease.mechanisms.common.variance_bounds import PRECISION, geometric_moments, upper_fraction
from dprelease.numerics.balls import ball, float_upper_bound
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, epsilon_lower_bound


@dataclass(frozen=True)
class DiscreteLaplace(SymmetricQuantileMechanism):
    """Two-sided geometric noise with ratio exp(-1 / scale)."""

    name: ClassVar[str] = "discrete_laplace"
    summary: ClassVar[str] = "two-sided geometric noise on the integers; pure, exponential tails"
    use_case: ClassVar[str] = "few answers, or delta 0: the plain choice for counts"
    has_integer_noise: ClassVar[bool] = True
    pure: ClassVar[bool] = True
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 1

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Return a bound of the relative drop of probabilities within a segment of integers.

        It follows from the slope of the log probabilities, which is 1 / scale.
        """
        return size / self.scale

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, float]:
        """Return x = -scale ln(u (1 + q)); ceil(x) - 1 is the largest k with u < q^k / (1 + q)."""
        position = np.log(u)
        position += math.log1p(math.exp(-1.0 / self.scale))
        position *= -self.scale
        # Callers use only results that are no whole numbers, for which ceil(x) - 1 is floor(x).
        return position, self.typical_quantile_error

    def upper_tail(self, k: int) -> arb:
        """Return q^k / (1 + q) with q = exp(-1 / scale)."""
        scale = arb(self.scale)
        return (-arb(k) / scale).exp() / (1 + (-1 / scale).exp())

    def losses(self, shift: int) -> tuple[DiscreteLaplaceLoss, ...]:
        """Return the exact loss of the integer noise."""
        return (DiscreteLaplaceLoss(self.scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return 2q / (1 - q^2)."""
        # The function sinh overflows above 710, where 1 / sinh is 2q to all digits.
        return 1.0 / math.sinh(1.0 / self.scale) if self.scale > 0.002 else 2 * self._q

    @property
    def standard_deviation(self) -> float:
        """Return sqrt(2q) / (1 - q)."""
        return math.sqrt(2.0 * self._q) / -math.expm1(-1.0 / self.scale)

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return the variance 2q / (1 - q)^2, rounded up, and the mean 0."""
        with ctx.workprec(PRECISION):
            scale = Fraction(self.scale)
            factor = 2 / (1 + (-1 / ball(scale)).exp())
            return upper_fraction(factor * geometric_moments(scale, rounded=False)[1]), Fraction(0)

    @property
    def _q(self) -> float:
        """The ratio of the probabilities of neighbouring integers, away from zero."""
        return math.exp(-1.0 / self.scale)


@dataclass(frozen=True)
class DiscreteLaplaceLoss(MonotoneLoss):
    """The loss of discrete Laplace noise against the same noise moved by `shift` steps."""

    scale: float
    shift: int

    @property
    def pure_epsilon(self) -> float:
        """Return shift / scale, rounded up."""
        return round_up(Fraction(self.shift) / Fraction(self.scale))

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(K <= k) - exp(epsilon) Q(K <= k) for the last k with a loss above epsilon."""
        scale = Fraction(self.scale)
        ratio = self.shift / scale
        if epsilon >= ratio:
            return 0.0
        edge = epsilon_lower_bound(epsilon)
        # Every output has a loss of at least -ratio, so the best event is the set of all outputs.
        if edge <= -ratio:
            return min(1.0, float_upper_bound(lambda: -ball(edge).expm1()))
        k = math.ceil((self.shift - edge * scale) / 2) - 1  # 0 <= k < shift

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            q = (-1 / ball(scale)).exp()
            gain = -ball(edge - (self.shift - k) / scale).expm1() - q * ball(-k / scale).expm1()
            return gain / (1 + q)

        return min(1.0, float_upper_bound(delta_interval))

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up.

        It follows from the losses at both ends and a geometric sum over the integers in between.
        """
        a = Fraction(order) - 1
        ratio = self.shift / Fraction(self.scale)
        fall = (2 * a + 1) / Fraction(self.scale)

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            q = (-1 / ball(self.scale)).exp()
            # The terms of E exp(a loss) are divided by exp(a ratio).
            last = (-ball((2 * a + 1) * ratio)).exp()
            inner = (1 - q) * (-ball(fall)).exp() * -ball(-fall * (self.shift - 1)).expm1()
            total = (1 + inner / -ball(-fall).expm1() + last) / (1 + q)
            return ball(ratio) + total.log() / ball(a)

        return float_upper_bound(divergence_interval, 256)

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals.

        The loss of the integer k is (shift - 2k) / scale for k from 0 to shift.
        """
        t, d = self.scale, float(self.shift)
        q = math.exp(-1.0 / t)
        # Rounded up: a loss on the wrong side of an edge would be too small.
        ratio = self.pure_epsilon
        # Between 1 and shift: the outputs below 1 all have the loss `ratio`, and those from shift
        # on the loss -ratio. Both are added separately below.
        # The least k between 0 and shift whose loss is at most the edge.
        cut = np.clip(np.ceil((d - edges * t) / 2), 1.0, d)
        k = np.concatenate(([d], cut, [1.0]))
        step = -np.expm1(-(k[:-1] - k[1:]) / t) / (1.0 + q)
        p_mass = np.exp(-k[1:] / t) * step
        q_mass = np.exp(-(d - k[:-1] + 1.0) / t) * step
        top, bottom = np.searchsorted(edges, [ratio, -ratio])
        near, far = 1.0 / (1.0 + q), math.exp(-d / t) / (1.0 + q)
        p_mass[top] += near
        q_mass[top] += far
        p_mass[bottom] += far
        q_mass[bottom] += near
        return p_mass, q_mass


MECHANISM = DiscreteLaplace
