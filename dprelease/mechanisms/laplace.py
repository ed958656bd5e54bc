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

from dprelease.mechanisms.base import QUANTILE_ERROR, Mechanism, certain
from dprelease.numerics.lattice import Flags
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import SLACK, Floats


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Laplace noise of scale `scale` lattice steps, rounded to the nearest step."""

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise rounded to the lattice; pure, exponential tails"
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
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
        return (LaplaceLoss(round_up(Fraction(shift) / Fraction(self.scale))),)

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
class LaplaceLoss:
    """The loss of Laplace noise against itself moved by `ratio` scales (rounded up)."""

    ratio: float

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss."""
        return self.ratio

    @property
    def normal_mu(self) -> None:
        """Return None: the loss is not normal."""
        return None

    @property
    def span(self) -> float:
        """Return the largest loss: no mass lies beyond."""
        return self.ratio

    def delta(self, epsilon: float) -> float:
        """Return 1 - exp((epsilon - ratio) / 2) inside, 0 above, 1 - exp(epsilon) below."""
        if epsilon >= self.ratio:
            return 0.0
        exponent = epsilon if epsilon <= -self.ratio else (epsilon - self.ratio) / 2
        return min(1.0, -math.expm1(exponent) * SLACK)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the masses of loss intervals: two atoms at +-ratio, densities between."""
        inside = np.clip(edges, -self.ratio, self.ratio)
        ends = np.concatenate(([-self.ratio], inside, [self.ratio]))
        width = -np.expm1(-np.diff(ends) / 2)
        p = 0.5 * np.exp((ends[1:] - self.ratio) / 2) * width
        q = 0.5 * np.exp((-ends[:-1] - self.ratio) / 2) * width
        top, bottom = np.searchsorted(edges, [self.ratio, -self.ratio])
        far = 0.5 * math.exp(-self.ratio)
        p[top] += 0.5
        q[top] += far
        p[bottom] += far
        q[bottom] += 0.5
        return p, q


MECHANISM = Laplace
