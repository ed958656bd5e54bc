"""Gaussian mechanism, rounded to the lattice.

Release    q + round(Y), with Y ~ N(0, scale^2) drawn independently for every cell.
Guarantee  The curve delta(epsilon) of the continuous mechanism; rounding is post-processing.
Source     Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8.
Units      q, Y and scale in lattice steps.
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
    SymmetricQuantile,
    normal_relative_drop,
    rounded_up,
)
from dprelease.mechanisms.common.variance_bounds import log_concave_moments
from dprelease.mechanisms.randomizer import PlaceInAuto
from dprelease.numerics.balls import ball
from dprelease.numerics.normal_tail import erfc, normal_quantile
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss
from dprelease.privacy.losses.normal import normal_delta

SURE = 8.0
FAR = 13.5
"""Number of standard deviations that a normal variable exceeds with probability below 1e-40."""


@dataclass(frozen=True)
class Gaussian(SymmetricQuantile):
    """Normal noise of standard deviation `scale` steps, rounded to the nearest step."""

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "normal noise rounded to the lattice; approximate, thin tails"
    use: ClassVar[str] = "many answers under an (epsilon, delta) budget"
    auto = PlaceInAuto(last_resort=True, integers="discrete_gaussian")
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    by_squares: ClassVar[bool] = True

    @property
    def position_error(self) -> float:
        """Return 2**-40 scales."""
        return self.scale * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Bound the relative drop in a block by the slope of the log density at its far end."""
        return normal_relative_drop(self.scale, 0.0, first, size)

    def upper_position(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2 for the quantile x = scale times the normal one."""
        position = normal_quantile(u)
        position *= -self.scale
        position += 0.5
        return position, self.position_error

    def upper_tail(self, k: int) -> arb:
        """Return erfc((k - 1/2) / (scale sqrt 2)) / 2."""
        return (arb(2 * k - 1) / (2 * arb(self.scale) * arb(2).sqrt())).erfc() / 2

    def losses(self, shift: int) -> tuple[GaussianLoss, ...]:
        """Return the loss of the continuous noise, which bounds that of the rounded noise."""
        return (GaussianLoss(round_up(Fraction(shift) / Fraction(self.scale))),)

    def federated(self, parties: int) -> Self:
        """Return the noise that each of `parties` adds: scale / sqrt(parties), rounded up.

        Exact for noise that is not rounded.

        Raises
        ------
        ValueError
            If there is no party.
        BudgetError
            DP-MECH-001 if a share's scale can't be certified.
        """
        if parties < 1:
            raise ValueError("at least one party adds noise")
        with ctx.workprec(128):
            return type(self)(rounded_up(ball(self.scale) / arb(parties).sqrt()))

    @property
    def mean_absolute_error(self) -> float:
        """Return the sum over k >= 1 of 2 P(K >= k), by Euler-Maclaurin where it is long."""
        if self.scale > 64:  # the next term is below 1e-6 of the last one
            return self.scale * math.sqrt(2 / math.pi) - 1 / (
                12 * self.scale * math.sqrt(2 * math.pi)
            )
        return float(np.sum(self._tails()[1]))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of scale^2 + 1/12 (up to exp(-2 pi^2 scale^2)), or of the sum."""
        if self.scale > 64:
            return math.sqrt(self.scale**2 + 1 / 12)
        k, tails = self._tails()
        return math.sqrt(float(np.sum((2 * k - 1) * tails)))

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return scale^2 + 1/12 plus a tiny margin, or a sum of chords; and the mean 0.

        By Poisson's formula the variance is scale^2 + 1/12 and the sum over n >= 1 of (-1)^n
        (4 scale^2 + 1 / (pi n)^2) exp(-2 (pi n scale)^2): below 2^-1000 from a scale of 8 on.
        """
        if self.scale < SURE:
            return log_concave_moments(self)
        return Fraction(self.scale) ** 2 + Fraction(1, 12) + Fraction(1, 2**900), Fraction(0)

    def _tails(self) -> tuple[Floats, Floats]:
        k = np.arange(1.0, int(40 * self.scale) + 2)
        return k, erfc((k - 0.5) / (self.scale * math.sqrt(2)))


def normal_mass(low: Floats, high: Floats) -> Floats:
    """Return P(low < Z <= high) of a standard normal Z, with a relative error below 2**-32."""
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    width, middle = b - a, (a + b) / 2
    density = np.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi)
    with np.errstate(invalid="ignore", over="ignore"):
        narrow = density * width * (1 + (middle**2 - 1) * width**2 / 24)
        small = (width < 1e-3) & (width * np.abs(middle) < 1e-2)
    return np.where(small, narrow, _normal_cdf(b) - _normal_cdf(a))


def _normal_cdf(z: Floats) -> Floats:
    """Return P(Z <= z)."""
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
    def span(self) -> float:
        """Return the loss at 13.5 standard deviations."""
        return self.mu**2 / 2 + FAR * self.mu

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return the closed form of Balle and Wang."""
        return normal_delta(self.mu, epsilon)

    @property
    def rho(self) -> float:
        """Return mu^2 / 2, rounded up."""
        return round_up(Fraction(self.mu) ** 2 / 2)

    def concentration_beyond(self, order: float) -> float:
        """Return mu^2 / 2, rounded up: that of every order."""
        return self.rho

    def renyi(self, order: float) -> float:
        """Return order mu^2 / 2, rounded up: the loss is normal."""
        return round_up(Fraction(order) * Fraction(self.mu) ** 2 / 2)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return probabilities of the loss: N(mu^2/2, mu^2) under P, N(-mu^2/2, mu^2) under Q."""
        ends = np.concatenate(([-np.inf], edges, [np.inf]))
        middle = ends / self.mu
        p = normal_mass(middle[:-1] - self.mu / 2, middle[1:] - self.mu / 2)
        q = normal_mass(middle[:-1] + self.mu / 2, middle[1:] + self.mu / 2)
        return p, q


MECHANISM = Gaussian
