"""Laplace mechanism, rounded to the lattice.

Release    q + round(Y), with Y ~ Laplace(scale) drawn independently for every cell.
Guarantee  One cell that moves by at most D steps has a privacy loss of at most D / scale; rounding
           is post-processing, since q is on the lattice.
Source     Dwork, McSherry, Nissim and Smith 2006; delta(epsilon): Balle, Barthe and Gaboardi 2018,
           arXiv 1807.01647v2, Theorem 3.
Units      q, Y and scale in lattice steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import QUANTILE_ERROR, Symmetric, certain
from dprelease.numerics.balls import ball, least_above
from dprelease.numerics.lattice import Flags
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, below


@dataclass(frozen=True)
class Laplace(Symmetric):
    """Laplace noise of scale `scale` lattice steps, rounded to the nearest step."""

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise rounded to the lattice; pure, exponential tails"
    use: ClassVar[str] = "few answers, or delta 0, where noise may have fractions of a step"
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return floor(x + 1/2) for the quantile x = -scale ln(2u)."""
        position = np.log(u)
        position += math.log(2.0)
        position *= -self.scale
        position += 0.5
        return certain(position, self.scale * QUANTILE_ERROR)

    def upper_tail(self, k: int) -> arb:
        """Return exp(-(k - 1/2) / scale) / 2."""
        return (-(arb(2 * k - 1) / 2) / arb(self.scale)).exp() / 2

    def losses(self, shift: int) -> tuple[LaplaceLoss, ...]:
        """Return the loss of the continuous law, which bounds that of the rounded one."""
        return (LaplaceLoss(self.scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k) = exp(-1/(2 scale)) / (1 - exp(-1/scale))."""
        return math.exp(-0.5 / self.scale) / -math.expm1(-1.0 / self.scale)

    @property
    def standard_deviation(self) -> float:
        """Return the square root of sum over k >= 1 of (2k - 1) 2 P(K >= k)."""
        q = math.exp(-1.0 / self.scale)
        return math.sqrt(math.exp(-0.5 / self.scale) * (1 + q)) / -math.expm1(-1.0 / self.scale)


@dataclass(frozen=True)
class LaplaceLoss(MonotoneLoss):
    """The loss of continuous Laplace noise against itself moved by `shift` steps."""

    scale: float
    shift: int

    @property
    def pure_epsilon(self) -> float:
        """Return shift / scale, rounded up: the largest loss."""
        return round_up(Fraction(self.shift) / Fraction(self.scale))

    @property
    def normal_mu(self) -> None:
        """Return None: the loss is not normal."""
        return None

    @property
    def span(self) -> float:
        """Return the largest loss: no mass lies beyond."""
        return self.pure_epsilon

    def delta(self, epsilon: float | Fraction) -> float:
        """Return 1 - exp((epsilon - ratio) / 2) inside, 0 above, 1 - exp(epsilon) below."""
        ratio = Fraction(self.shift) / Fraction(self.scale)
        if epsilon >= ratio:
            return 0.0
        edge = below(epsilon)
        exponent = edge if edge <= -ratio else (edge - ratio) / 2
        return min(1.0, least_above(lambda: -ball(exponent).expm1()))

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the masses of loss intervals: two atoms at +-ratio, densities between."""
        ratio = self.pure_epsilon
        inside = np.clip(edges, -ratio, ratio)
        ends = np.concatenate(([-ratio], inside, [ratio]))
        width = -np.expm1(-np.diff(ends) / 2)
        p = 0.5 * np.exp((ends[1:] - ratio) / 2) * width
        q = 0.5 * np.exp((-ends[:-1] - ratio) / 2) * width
        top, bottom = np.searchsorted(edges, [ratio, -ratio])
        far = 0.5 * math.exp(-ratio)
        p[top] += 0.5
        q[top] += far
        p[bottom] += far
        q[bottom] += 0.5
        return p, q


MECHANISM = Laplace
