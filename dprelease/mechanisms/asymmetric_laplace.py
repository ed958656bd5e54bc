"""Asymmetric Laplace mechanism, rounded to the lattice.

Release    q + round(Y) - center, Y with density lambda / (k + 1/k) times exp(lambda x / k) below
           zero and exp(-lambda k x) above, drawn independently for every cell.
Guarantee  With lambda = 1 / (scale max(k, 1/k)), one cell that moves by at most D steps has a
           privacy loss of at most D / scale; rounding and centring are post-processing.
Source     Mugunthan, Xiao and Kagal, "Utility-preserving privacy mechanisms for counting queries"
           (asymmetric Laplace). Its noise has the mean (1 - k^2) / (lambda k), which is not zero:
           `design` subtracts the nearest lattice point unless `debias` is "false".
Units      q, Y, scale and center in lattice steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from flint import arb, ctx

from dprelease.errors import Place
from dprelease.mechanisms.base import LARGEST_CENTER, QUANTILE_ERROR, RealQuantile
from dprelease.mechanisms.common.shape import DEBIAS, Shape
from dprelease.mechanisms.common.variance_bounds import PRECISION, geometric_moments, rounded_up
from dprelease.mechanisms.randomizer import ONE_STEP, PlaceInAuto
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.privacy.losses.two_sided_exponential import ExponentialLoss
from dprelease.privacy.unit import Sensitivity


@dataclass(frozen=True)
class AsymmetricLaplace(RealQuantile):
    """Two-sided exponential noise whose long side is k^2 (or 1/k^2) times as wide as the other."""

    name: ClassVar[str] = "asymmetric_laplace"
    summary: ClassVar[str] = "Laplace noise with one longer side; pure, exponential tails"
    use: ClassVar[str] = "errors on one side cost more than on the other"
    auto = PlaceInAuto(last_resort=True)  # the k of least error is 1
    pure: ClassVar[bool] = True
    norm: ClassVar[int] = 1
    shapes = (
        Shape("k", "above 1 widens the lower side, below 1 the upper one", "1/64 to 64"),
        DEBIAS,
    )
    needed = frozenset({"k"})
    examples = ({"k": 1.2}, {"k": 0.5, "debias": "false"}, {"k": 3.0})
    domains = {"k": (1 / 64, 64.0), "center": (-LARGEST_CENTER, LARGEST_CENTER)}  # noqa: RUF012

    k: float
    center: float = 0.0

    @classmethod
    def _certify(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        super()._certify(values, place)
        if values["center"] != math.floor(values["center"]):
            cls._refuse("center", "a whole number", place)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - the law depends on the scale alone
        place: Place | None = None,
        /,
        *,
        debias: str | float = "true",
        **shape: str | float,
    ) -> Self:
        """Return the noise of a scale and a `k`, centred unless `debias` is "false"."""
        mechanism = cls.of(place, scale=scale, **shape)
        return (
            mechanism
            if debias == "false"
            else cls(mechanism.scale, mechanism.k, float(round(mechanism.mean)))
        )

    @property
    def left(self) -> Fraction:
        """Return the scale below zero, exact, steps."""
        return Fraction(self.scale) * max(Fraction(1), Fraction(self.k) ** 2)

    @property
    def right(self) -> Fraction:
        """Return the scale above zero, exact, steps."""
        return Fraction(self.scale) / min(Fraction(1), Fraction(self.k) ** 2)

    @property
    def symmetric(self) -> bool:
        """Return whether both sides are equal."""
        return self.k == 1.0 and self.center == 0.0

    @property
    def position_error(self) -> float:
        """Return 2**-40 of both scales and of the centre."""
        return (float(self.left + self.right) + abs(self.center)) * QUANTILE_ERROR

    @property
    def mode(self) -> int:
        """Return the cell around zero, after subtraction of the centre."""
        return -int(self.center)

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Bound the relative drop in a block by the log slope of its side."""
        left, right = float(self.left), float(self.right)
        near = first + self.center
        scales = np.where(near > size, right, np.where(near < -2 * size, left, min(left, right)))
        bounds: Floats = size / scales
        return bounds

    def position(self, u: Floats, upper: bool) -> tuple[Floats, float]:
        """Return x - center + 1/2 for the quantile x, exponential on either side of zero."""
        near, far = (self.right, self.left) if upper else (self.left, self.right)
        share = float(near / (near + far))
        position = np.log(u)
        position -= math.log(share)
        position *= -float(near)
        across = position < 0  # the quantile lies on the other side of zero
        if across.any():
            position[across] = float(far) * (np.log1p(-u[across]) - math.log1p(-share))
        if not upper:
            np.negative(position, out=position)
        position += 0.5 - self.center
        return position, self.position_error

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k)."""
        x = Fraction(2 * k - 1 if upper else 2 * k + 1, 2) + int(self.center)
        near, far = (self.right, self.left) if upper else (self.left, self.right)
        out = x if upper else -x
        if out >= 0:
            return ball(near / (near + far)) * ball(-out / near).exp()
        return 1 - ball(far / (near + far)) * ball(out / far).exp()

    def losses(self, shift: int) -> tuple[ExponentialLoss, ...]:
        """Return the losses of moves up and down, which bound those of the rounded noise."""
        up = ExponentialLoss(self.left, self.right, shift)
        return (up,) if self.k == 1.0 else (up, ExponentialLoss(self.right, self.left, shift))

    @property
    def mean(self) -> float:
        """Return the sum over j >= 1 of P(N >= j) - P(N <= -j), minus the centre."""
        weight, left, right = self._sides
        return (1 - weight) * _first(right) - weight * _first(left) - self.center

    @property
    def mean_absolute_error(self) -> float:
        """Return E |N - center|, N the rounded noise: from its mean and one of its tails."""
        weight, left, right = self._sides
        near, far = (right, left) if self.center >= 0 else (left, right)
        share = 1 - weight if self.center >= 0 else weight
        c = abs(self.center)
        # E (c - N)+ = sum over j < c of P(N <= j), computed on the side of the centre.
        short = c - share * _first(near) * -math.expm1(-c / near) + (1 - share) * _first(far)
        mean = share * _first(near) - (1 - share) * _first(far)
        return mean - c + 2 * short

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of the rounded noise."""
        weight, left, right = self._sides
        square = (1 - weight) * _second(right) + weight * _second(left)
        mean = (1 - weight) * _first(right) - weight * _first(left)
        return math.sqrt(square - mean * mean)

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return the variance, rounded up, and the mean to 2^-64 of a step."""
        with ctx.workprec(PRECISION):
            sides = self.left + self.right
            low, high = (geometric_moments(side, rounded=True) for side in (self.left, self.right))
            below, above = ball(self.left / sides), ball(self.right / sides)
            mean = above * high[0] - below * low[0]
            variance = above * high[1] + below * low[1] - mean * mean
            mantissa, exponent = (int(part) for part in mean.mid().man_exp())
            nearest = Fraction(round(mantissa * Fraction(2) ** (exponent + 64)), 2**64)
            return rounded_up(variance), nearest - int(self.center)

    @property
    def _sides(self) -> tuple[float, float, float]:
        """Return P(Y < 0) and the two scales."""
        return float(self.left / (self.left + self.right)), float(self.left), float(self.right)


def _first(scale: float) -> float:
    """Return the sum over j >= 1 of exp(-(j - 1/2) / scale)."""
    return math.exp(-0.5 / scale) / -math.expm1(-1.0 / scale)


def _second(scale: float) -> float:
    """Return the sum over j >= 1 of (2j - 1) exp(-(j - 1/2) / scale)."""
    return math.exp(-0.5 / scale) * (1 + math.exp(-1.0 / scale)) / math.expm1(-1.0 / scale) ** 2


MECHANISM = AsymmetricLaplace
