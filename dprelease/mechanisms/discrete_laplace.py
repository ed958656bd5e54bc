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
from flint import arb

from dprelease.mechanisms.base import QUANTILE_ERROR, Mechanism, certain
from dprelease.numerics.lattice import Flags
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import SLACK, Floats


@dataclass(frozen=True)
class DiscreteLaplace(Mechanism):
    """Two-sided geometric noise with ratio exp(-1 / scale)."""

    name: ClassVar[str] = "discrete_laplace"
    summary: ClassVar[str] = "two-sided geometric noise on the integers; pure, exponential tails"
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return ceil(x) - 1 for x = -scale ln(u (1 + q)): the largest k with u < q^k / (1 + q)."""
        position = np.log(u)
        position += math.log1p(math.exp(-1.0 / self.scale))
        position *= -self.scale
        # Away from whole numbers, the only place where it counts, ceil(x) - 1 is floor(x).
        return certain(position, self.scale * QUANTILE_ERROR)

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
    def _q(self) -> float:
        return math.exp(-1.0 / self.scale)


@dataclass(frozen=True)
class DiscreteLaplaceLoss:
    """The loss of discrete Laplace noise against itself moved by `shift` steps."""

    scale: float
    shift: int

    @property
    def pure_epsilon(self) -> float:
        """Return shift / scale, rounded up."""
        return round_up(Fraction(self.shift) / Fraction(self.scale))

    @property
    def normal_mu(self) -> None:
        """Return None: the loss is not normal."""
        return None

    @property
    def span(self) -> float:
        """Return the largest loss: no mass lies beyond."""
        return self.pure_epsilon

    def delta(self, epsilon: float) -> float:
        """Return the largest P(K <= k) - exp(epsilon) Q(K <= k); every term is non-negative."""
        if epsilon >= self.pure_epsilon:
            return 0.0
        if epsilon <= -self.pure_epsilon:
            return min(1.0, -math.expm1(epsilon) * SLACK)
        middle = math.ceil((self.shift - epsilon * self.scale) / 2) - 1
        best = max(self._gain(k, epsilon) for k in range(middle - 1, middle + 2))
        return min(1.0, max(0.0, best) * SLACK)

    def _gain(self, k: int, epsilon: float) -> float:
        k = max(0, min(self.shift - 1, k))
        q = math.exp(-1.0 / self.scale)
        first = -math.expm1(epsilon - (self.shift - k) / self.scale)
        return (first - q * math.expm1(-k / self.scale)) / (1.0 + q)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return masses of loss intervals; the loss is (shift - 2k) / scale at k in 0..shift."""
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
