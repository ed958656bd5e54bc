"""Discrete Laplace mechanism (two-sided geometric).

Release    q + K, with P(K = k) proportional to exp(-|k| / scale), independently for every cell.
Guarantee  One cell that moves by at most D steps has a privacy loss of at most D / scale.
Source     Ghosh, Roughgarden and Sundararajan 2009, arXiv 0811.2841v3, Definition 2.1.
Units      q, K and scale in lattice steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb, ctx

from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantile
from dprelease.mechanisms.common.variance_bounds import PRECISION, geometric_moments, rounded_up
from dprelease.numerics.balls import ball, least_above
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, strictly_below


@dataclass(frozen=True)
class DiscreteLaplace(SymmetricQuantile):
    """Two-sided geometric noise with ratio exp(-1 / scale)."""

    name: ClassVar[str] = "discrete_laplace"
    summary: ClassVar[str] = "two-sided geometric noise on the integers; pure, exponential tails"
    use: ClassVar[str] = "few answers, or delta 0: the plain choice for counts"
    integers: ClassVar[bool] = True
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1

    @property
    def position_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Bound the relative drop in a block for a log slope of 1 / scale."""
        return size / self.scale

    def upper_position(self, u: Floats) -> tuple[Floats, float]:
        """Return x = -scale ln(u (1 + q)); ceil(x) - 1 is the largest k with u < q^k / (1 + q)."""
        position = np.log(u)
        position += math.log1p(math.exp(-1.0 / self.scale))
        position *= -self.scale
        # Only results away from whole numbers are used; there ceil(x) - 1 is floor(x).
        return position, self.position_error

    def upper_tail(self, k: int) -> arb:
        """Return q^k / (1 + q) with q = exp(-1 / scale)."""
        scale = arb(self.scale)
        return (-arb(k) / scale).exp() / (1 + (-1 / scale).exp())

    def losses(self, shift: int) -> tuple[DiscreteLaplaceLoss, ...]:
        """Return the exact loss."""
        return (DiscreteLaplaceLoss(self.scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return 2q / (1 - q^2)."""
        return 1.0 / math.sinh(1.0 / self.scale) if self.scale > 0.002 else 2 * self._q

    @property
    def standard_deviation(self) -> float:
        """Return sqrt(2q) / (1 - q)."""
        return math.sqrt(2.0 * self._q) / -math.expm1(-1.0 / self.scale)

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return 2q / (1 - q)^2 rounded up, and 0."""
        with ctx.workprec(PRECISION):
            scale = Fraction(self.scale)
            within = 2 / (1 + (-1 / ball(scale)).exp())
            return rounded_up(within * geometric_moments(scale, rounded=False)[1]), Fraction(0)

    @property
    def _q(self) -> float:
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
        """Return P(K <= k) - exp(epsilon) Q(K <= k), k the last one with a loss above epsilon."""
        scale = Fraction(self.scale)
        ratio = self.shift / scale
        if epsilon >= ratio:
            return 0.0
        edge = strictly_below(epsilon)
        if edge <= -ratio:
            return min(1.0, least_above(lambda: -ball(edge).expm1()))
        k = math.ceil((self.shift - edge * scale) / 2) - 1  # 0 <= k < shift

        def value() -> arb:
            q = (-1 / ball(scale)).exp()
            gain = -ball(edge - (self.shift - k) / scale).expm1() - q * ball(-k / scale).expm1()
            return gain / (1 + q)

        return min(1.0, least_above(value))

    def renyi(self, order: float) -> float:
        """Return the divergence of an order above 1, rounded up: two ends and a geometric sum."""
        a = Fraction(order) - 1
        ratio = self.shift / Fraction(self.scale)
        fall = (2 * a + 1) / Fraction(self.scale)

        def value() -> arb:
            q = (-1 / ball(self.scale)).exp()
            # E exp(a loss), over exp(a ratio).
            last = (-ball((2 * a + 1) * ratio)).exp()
            inner = (1 - q) * (-ball(fall)).exp() * -ball(-fall * (self.shift - 1)).expm1()
            total = (1 + inner / -ball(-fall).expm1() + last) / (1 + q)
            return ball(ratio) + total.log() / ball(a)

        return least_above(value, 256)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return loss interval probabilities; the loss is (shift - 2k) / scale at k in 0..shift."""
        t, d = self.scale, float(self.shift)
        q = math.exp(-1.0 / t)
        ratio = self.pure_epsilon
        cut = np.clip(np.ceil((d - edges * t) / 2), 1.0, d)  # least inner k with a loss <= edge
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
