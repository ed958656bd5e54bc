"""Offset-symmetric Gaussian mechanism, rounded to whole steps.

Release    q + round(Y), where Y is drawn independently for every cell, with a density proportional
           to exp(-y^2 / (2 scale^2) - ratio |y| / scale).
Guarantee  The curve delta(epsilon) of the continuous mechanism; rounding is post-processing.
Source     Sadeghi and Korki, "Offset-symmetric Gaussians for differential privacy", with
           scale = sigma and ratio = m / sigma: eqs. (2), (9), (56), Theorems 1 and 2.
Limits     For ratio 0 the noise is Gaussian noise. As the ratio grows, it approaches Laplace noise
           with the scale `scale / ratio`.
Units      q, Y and scale in steps; ratio has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import (
    QUANTILE_ERROR,
    SymmetricQuantileMechanism,
    normal_relative_drop,
)
from dprelease.mechanisms.common.variance_bounds import log_concave_variance_bound
from dprelease.mechanisms.randomizer import AutoRule, ShapeParameter
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.numerics.normal_tail import normal_quantile
from dprelease.privacy.losses.offset_gaussian import (
    OffsetGaussianLoss,
    density_at_zero,
    log_upper_tail,
    moments,
    upper_tail_interval,
)

LEAST_RATIO, LARGEST_RATIO = 2.0**-10, 32.0
RATIO = ShapeParameter("ratio", "m / sigma: near 0 Gaussian, large Laplace", "2^-10 to 32")
RATIOS = (1.0, 0.5, 2.0, 0.25, 4.0, 8.0, 0.1, 16.0, 32.0)
LARGEST_SUMMED_MEAN = 64.0
"""Mean of |Y|, in steps, below which moments are sums over steps."""

LARGEST_EXPONENT = 40.0
"""Exponent of the density from which on tails are left out of the sums."""


@dataclass(frozen=True)
class OffsetSymmetricGaussian(SymmetricQuantileMechanism):
    """Noise whose two sides are tails of a normal density above an offset, rounded to steps."""

    name: ClassVar[str] = "offset_symmetric_gaussian"
    summary: ClassVar[str] = "Gaussian tails with a Laplace-like peak, rounded; approximate"
    use_case: ClassVar[str] = "between Laplace and Gaussian: a few to some hundred answers"
    auto_rule = AutoRule(last_resort=True, integer_variant="discrete_offset_symmetric_gaussian")
    pure: ClassVar[bool] = False
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 2
    shape_parameters = (RATIO,)
    example_shapes = ({"ratio": 0.5}, {"ratio": 4.0})
    searched_shapes: ClassVar[tuple[Mapping[str, float], ...]] = tuple({"ratio": r} for r in RATIOS)
    parameter_ranges = {"ratio": (LEAST_RATIO, LARGEST_RATIO)}  # noqa: RUF012

    ratio: float

    @property
    def typical_quantile_error(self) -> float:
        """Return 2**-40 scales, and as much for the offset."""
        return self.scale * (1.0 + self.ratio) * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Return bounds of the relative drop of probabilities within a segment of integers.

        They follow from the slope of the log density at the far end of each segment.
        """
        return normal_relative_drop(self.scale, self.ratio, first, size)

    def upper_real_quantile(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2 for the quantile x = scale (z - ratio), where Q(z) = 2 u Q(ratio)."""
        position = normal_quantile(u * math.erfc(self.ratio / math.sqrt(2)))
        position += self.ratio
        position *= -self.scale
        position += 0.5
        return position, self.typical_quantile_error

    def upper_tail(self, k: int) -> arb:
        """Return P(Y >= k - 1/2), the tail of the continuous noise."""
        return upper_tail_interval(
            ball(Fraction(2 * k - 1, 2) / Fraction(self.scale)), ball(self.ratio)
        )

    def losses(self, shift: int) -> tuple[OffsetGaussianLoss, ...]:
        """Return the loss of the continuous noise, which bounds the loss of the rounded noise."""
        return (OffsetGaussianLoss(Fraction(shift) / Fraction(self.scale), Fraction(self.ratio)),)

    @property
    def mean_absolute_error(self) -> float:
        """Return twice the sum over k >= 1 of P(Y >= k - 1/2).

        For large scales the Euler-Maclaurin formula replaces the sum.
        """
        continuous_mean = self.scale * moments(self.ratio)[0]
        if continuous_mean >= LARGEST_SUMMED_MEAN:
            return continuous_mean - density_at_zero(self.ratio) / (12 * self.scale)
        return float(np.sum(self._two_sided_tails()))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(Y >= k - 1/2)."""
        first, second = moments(self.ratio)
        if self.scale * first >= LARGEST_SUMMED_MEAN:
            # Sheppard's correction is 1/12; the kink of the density at zero needs a further one.
            kink = 7 / 480 * self.ratio * density_at_zero(self.ratio) / self.scale**2
            return math.sqrt(self.scale**2 * second + 1 / 12 + kink)
        tails = self._two_sided_tails()
        return math.sqrt(float(np.sum((2 * np.arange(1, len(tails) + 1) - 1) * tails)))

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return a bound of the variance, from chords above the tails, and the mean 0."""
        return log_concave_variance_bound(self)

    def _two_sided_tails(self) -> Floats:
        """Return P(|Y| >= k - 1/2) for k = 1, 2, ... until the tails are negligible."""
        far = math.sqrt(self.ratio**2 + 2 * LARGEST_EXPONENT) - self.ratio
        steps = np.arange(1, math.ceil(far * self.scale) + 2, dtype=np.float64)
        return np.exp(log_upper_tail((steps - 0.5) / self.scale, self.ratio))


MECHANISM = OffsetSymmetricGaussian
