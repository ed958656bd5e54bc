"""Laplace mechanism, rounded to whole steps.

Release    q + round(Y), with Y ~ Laplace(scale), drawn independently for every cell.
Guarantee  One cell that moves by at most D steps has a privacy loss of at most D / scale; rounding
           is post-processing, since q is an integer.
Source     Dwork, McSherry, Nissim and Smith 2006; delta(epsilon): Balle, Barthe and Gaboardi 2018,
           arXiv 1807.01647v2, Theorem 3.
Units      q, Y and scale in steps.
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
from dprelease.mechanisms.randomizer import AutoRule
from dprelease.privacy.loss import Floats
from dprelease.privacy.losses.two_sided_exponential import ExponentialLoss


@dataclass(frozen=True)
class Laplace(SymmetricQuantileMechanism):
    """Laplace noise of scale `scale` steps, rounded to the nearest step."""

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise rounded to the lattice; pure, exponential tails"
    use_case: ClassVar[str] = "few answers, or delta 0, where noise may have fractions of a step"
    auto_rule = AutoRule(last_resort=True, integer_variant="discrete_laplace")
    pure: ClassVar[bool] = True
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 1

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> float:
        """Return a bound of the relative drop of probabilities within a segment of integers.

        It follows from the slope of the log density, which is 1 / scale.
        """
        return size / self.scale

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2 for the quantile x = -scale ln(2u)."""
        position = np.log(u)
        position += math.log(2.0)
        position *= -self.scale
        position += 0.5
        return position, self.typical_quantile_error

    def upper_tail(self, k: int) -> arb:
        """Return exp(-(k - 1/2) / scale) / 2."""
        return (-(arb(2 * k - 1) / 2) / arb(self.scale)).exp() / 2

    def losses(self, shift: int) -> tuple[ExponentialLoss, ...]:
        """Return the loss of the continuous noise, which bounds the loss of the rounded noise."""
        scale = Fraction(self.scale)
        return (ExponentialLoss(scale, scale, shift),)

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k) = exp(-1/(2 scale)) / (1 - exp(-1/scale))."""
        return math.exp(-0.5 / self.scale) / -math.expm1(-1.0 / self.scale)

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(K >= k)."""
        q = math.exp(-1.0 / self.scale)
        return math.sqrt(math.exp(-0.5 / self.scale) * (1 + q)) / -math.expm1(-1.0 / self.scale)

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return the variance of the rounded noise, rounded up, and the mean 0."""
        with ctx.workprec(PRECISION):
            moments = geometric_moments(Fraction(self.scale), rounded=True)
            return upper_fraction(moments[1]), Fraction(0)


MECHANISM = Laplace
