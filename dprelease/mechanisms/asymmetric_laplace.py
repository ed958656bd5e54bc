"""Asymmetric Laplace mechanism, rounded to whole steps.

Release    q + round(Y) - center, where Y is drawn independently for every cell. The density of Y at
           x is lambda / (k + 1/k) times exp(lambda x / k) below zero, and times exp(-lambda k x)
           above zero.
Guarantee  With lambda = 1 / (scale max(k, 1/k)), one cell that moves by at most D steps has a
           privacy loss of at most D / scale; rounding and centring are post-processing.
Source     Mugunthan, Xiao and Kagal, "Utility-preserving privacy mechanisms for counting queries"
           (asymmetric Laplace). Its noise has the mean (1 - k^2) / (lambda k), which is not zero:
           `design` subtracts the integer nearest to the mean unless `debias` is "false".
Units      q, Y, scale and center in steps.
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
from dprelease.mechanisms.base import LARGEST_CENTER, QUANTILE_ERROR, RealQuantileMechanism
from dprelease.mechanisms.common.variance_bounds import PRECISION, geometric_moments, upper_fraction
from dprelease.mechanisms.randomizer import DEBIAS, ONE_STEP, AutoRule, ShapeParameter
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.privacy.losses.two_sided_exponential import ExponentialLoss
from dprelease.privacy.unit import Sensitivity


@dataclass(frozen=True)
class AsymmetricLaplace(RealQuantileMechanism):
    """Two-sided exponential noise; the scale below zero is k^2 times the scale above zero."""

    name: ClassVar[str] = "asymmetric_laplace"
    summary: ClassVar[str] = "Laplace noise with one longer side; pure, exponential tails"
    use_case: ClassVar[str] = "errors on one side cost more than on the other"
    auto_rule = AutoRule(last_resort=True)  # the k of least error is 1
    pure: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 1
    shape_parameters = (
        ShapeParameter("k", "above 1 widens the lower side, below 1 the upper one", "1/64 to 64"),
        DEBIAS,
    )
    required_shapes = frozenset({"k"})
    example_shapes = ({"k": 1.2}, {"k": 0.5, "debias": "false"}, {"k": 3.0})
    parameter_ranges = {"k": (1 / 64, 64.0), "center": (-LARGEST_CENTER, LARGEST_CENTER)}  # noqa: RUF012

    k: float
    center: float = 0.0

    @classmethod
    def _require_admissible(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Refuse inadmissible parameters; the center must be a whole number."""
        super()._require_admissible(values, place)
        if values["center"] != math.floor(values["center"]):
            cls._refuse("center", "a whole number", place)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - the noise depends on the scale alone
        place: Place | None = None,
        /,
        *,
        debias: str | float = "true",
        **shape: str | float,
    ) -> Self:
        """Return the noise with a scale and a `k`, centred unless `debias` is "false"."""
        mechanism = cls.of(place, scale=scale, **shape)
        if debias == "false":
            return mechanism
        # Only whole steps are subtracted: a fraction of a step would have to be rounded again, and
        # the rest of the mean is stated in the manifest.
        return cls(mechanism.scale, mechanism.k, float(round(mechanism.mean)))

    @property
    def left_scale(self) -> Fraction:
        """Return the exact scale of the noise below zero, in steps."""
        # The shorter of both scales is always `scale`, because the shorter one determines the
        # privacy loss.
        return Fraction(self.scale) * max(Fraction(1), Fraction(self.k) ** 2)

    @property
    def right_scale(self) -> Fraction:
        """Return the exact scale of the noise above zero, in steps."""
        return Fraction(self.scale) / min(Fraction(1), Fraction(self.k) ** 2)

    @property
    def is_symmetric(self) -> bool:
        """Return whether both scales are equal and the centre is zero."""
        return self.k == 1.0 and self.center == 0.0

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 times the sum of both scales and of the distance of the centre from 0."""
        return (float(self.left_scale + self.right_scale) + abs(self.center)) * QUANTILE_ERROR

    @property
    def mode(self) -> int:
        """Return minus the centre, where the peak of the density lies after centring."""
        return -int(self.center)

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Return bounds of the relative drop of probabilities within a segment of integers.

        They follow from the slopes of the log density below and above its peak.
        """
        left, right = float(self.left_scale), float(self.right_scale)
        near = first + self.center
        # Near the peak a segment may have integers on both sides of it, where the shorter scale
        # bounds the slope.
        scales = np.where(near > size, right, np.where(near < -2 * size, left, min(left, right)))
        bounds: Floats = size / scales
        return bounds

    def real_quantile(self, u: Floats, upper: bool) -> tuple[Floats, float]:
        """Return x - center + 1/2 for the quantile x of the continuous noise."""
        near, far = (
            (self.right_scale, self.left_scale) if upper else (self.left_scale, self.right_scale)
        )
        share = float(near / (near + far))
        position = np.log(u)
        position -= math.log(share)
        position *= -float(near)
        # A tail probability up to 1/2 may exceed the probability of this side.
        across = position < 0  # the quantile lies on the other side of zero
        if across.any():
            position[across] = float(far) * (np.log1p(-u[across]) - math.log1p(-share))
        if not upper:
            np.negative(position, out=position)
        position += 0.5 - self.center
        return position, self.typical_quantile_error

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) around P(K >= k) if `upper`, else around P(K <= k)."""
        x = Fraction(2 * k - 1 if upper else 2 * k + 1, 2) + int(self.center)
        near, far = (
            (self.right_scale, self.left_scale) if upper else (self.left_scale, self.right_scale)
        )
        out = x if upper else -x
        if out >= 0:
            return ball(near / (near + far)) * ball(-out / near).exp()
        # A probability on this side is not small, so the subtraction from 1 loses no relative
        # accuracy that matters.
        return 1 - ball(far / (near + far)) * ball(out / far).exp()

    def losses(self, shift: int) -> tuple[ExponentialLoss, ...]:
        """Return the losses of continuous noise for a move up and a move down.

        They bound the losses of the rounded noise. For k = 1 both losses are equal, and the result
        has only one of them.
        """
        up = ExponentialLoss(self.left_scale, self.right_scale, shift)
        if self.k == 1.0:
            return (up,)
        return (up, ExponentialLoss(self.right_scale, self.left_scale, shift))

    @property
    def mean(self) -> float:
        """Return the sum over j >= 1 of P(N >= j) - P(N <= -j), minus the centre.

        N is the rounded noise before centring.
        """
        weight, left, right = self._negative_probability_and_scales
        return (1 - weight) * _tail_sum(right) - weight * _tail_sum(left) - self.center

    @property
    def mean_absolute_error(self) -> float:
        """Return E |N - center|, from the mean and one tail of the rounded noise N."""
        weight, left, right = self._negative_probability_and_scales
        near, far = (right, left) if self.center >= 0 else (left, right)
        share = 1 - weight if self.center >= 0 else weight
        c = abs(self.center)
        # E max(0, c - N) is the sum over j < c of P(N <= j), on the side of the centre.
        short = c - share * _tail_sum(near) * -math.expm1(-c / near) + (1 - share) * _tail_sum(far)
        mean = share * _tail_sum(near) - (1 - share) * _tail_sum(far)
        return mean - c + 2 * short

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of the rounded noise."""
        weight, left, right = self._negative_probability_and_scales
        square = (1 - weight) * _weighted_tail_sum(right) + weight * _weighted_tail_sum(left)
        mean = (1 - weight) * _tail_sum(right) - weight * _tail_sum(left)
        return math.sqrt(square - mean * mean)

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return the variance, rounded up, and the mean, rounded to multiples of 2^-64 steps."""
        with ctx.workprec(PRECISION):
            sides = self.left_scale + self.right_scale
            low, high = (
                geometric_moments(side, rounded=True)
                for side in (self.left_scale, self.right_scale)
            )
            below, above = ball(self.left_scale / sides), ball(self.right_scale / sides)
            mean = above * high[0] - below * low[0]
            variance = above * high[1] + below * low[1] - mean * mean
            mantissa, exponent = (int(part) for part in mean.mid().man_exp())
            # Rounded to 64 bits, far coarser than the ball, so that other versions of flint find
            # the same number.
            nearest = Fraction(round(mantissa * Fraction(2) ** (exponent + 64)), 2**64)
            return upper_fraction(variance), nearest - int(self.center)

    @property
    def _negative_probability_and_scales(self) -> tuple[float, float, float]:
        """Return P(Y < 0), the scale below zero and the scale above zero, as floats."""
        return (
            float(self.left_scale / (self.left_scale + self.right_scale)),
            float(self.left_scale),
            float(self.right_scale),
        )


def _tail_sum(scale: float) -> float:
    """Return the sum over j >= 1 of exp(-(j - 1/2) / scale)."""
    return math.exp(-0.5 / scale) / -math.expm1(-1.0 / scale)


def _weighted_tail_sum(scale: float) -> float:
    """Return the sum over j >= 1 of (2j - 1) exp(-(j - 1/2) / scale)."""
    return math.exp(-0.5 / scale) * (1 + math.exp(-1.0 / scale)) / math.expm1(-1.0 / scale) ** 2


MECHANISM = AsymmetricLaplace
