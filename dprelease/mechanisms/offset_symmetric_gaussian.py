"""Offset-symmetric Gaussian tails, rounded to the lattice.

Release    q + round(Y), Y with a density proportional to
           exp(-y^2 / (2 scale^2) - ratio |y| / scale), drawn independently for every cell.
Guarantee  The curve delta(epsilon) of the continuous mechanism; rounding is post-processing.
Source     Sadeghi and Korki, "Offset-symmetric Gaussians for differential privacy", with
           scale = sigma and ratio = m / sigma: eqs. (2), (9), (56), Theorems 1 and 2.
Limits     ratio 0 is Gaussian; as ratio grows the noise is Laplace of scale `scale / ratio`.
Units      q, Y and scale in lattice steps; ratio has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import QUANTILE_ERROR, SymmetricQuantile, normal_relative_drop
from dprelease.mechanisms.common.shape import Shape
from dprelease.mechanisms.common.variance_bounds import log_concave_moments
from dprelease.mechanisms.randomizer import PlaceInAuto
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats
from dprelease.numerics.normal_tail import normal_quantile
from dprelease.privacy.losses.offset_gaussian import (
    OffsetGaussianLoss,
    density_at_zero,
    log_upper_tail,
    moments,
    upper_tail_ball,
)

LEAST_RATIO, LARGEST_RATIO = 2.0**-10, 32.0
RATIO = Shape("ratio", "m / sigma: near 0 Gaussian, large Laplace", "2^-10 to 32")
RATIOS = (1.0, 0.5, 2.0, 0.25, 4.0, 8.0, 0.1, 16.0, 32.0)
SMALL = 64.0
"""Typical |Y| below which moments are summed step by step."""

MOST_EXPONENT = 40.0


@dataclass(frozen=True)
class OffsetSymmetricGaussian(SymmetricQuantile):
    """The tails of a normal variable above an offset, on both sides; rounded to steps."""

    name: ClassVar[str] = "offset_symmetric_gaussian"
    summary: ClassVar[str] = "Gaussian tails with a Laplace-like peak, rounded; approximate"
    use: ClassVar[str] = "between Laplace and Gaussian: a few to some hundred answers"
    auto = PlaceInAuto(last_resort=True, integers="discrete_offset_symmetric_gaussian")
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    shapes = (RATIO,)
    examples = ({"ratio": 0.5}, {"ratio": 4.0})
    search: ClassVar[tuple[Mapping[str, float], ...]] = tuple({"ratio": r} for r in RATIOS)
    domains = {"ratio": (LEAST_RATIO, LARGEST_RATIO)}  # noqa: RUF012

    ratio: float

    @property
    def position_error(self) -> float:
        """Return 2**-40 scales, and as much for the offset."""
        return self.scale * (1.0 + self.ratio) * QUANTILE_ERROR

    def largest_relative_drop(self, first: Floats, size: float) -> Floats:
        """Bound the relative drop in a block by the slope of the log density at its far end."""
        return normal_relative_drop(self.scale, self.ratio, first, size)

    def upper_position(self, u: Floats) -> tuple[Floats, float]:
        """Return x + 1/2 for x = scale (z - ratio), Q(z) = 2 u Q(ratio)."""
        position = normal_quantile(u * math.erfc(self.ratio / math.sqrt(2)))
        position += self.ratio
        position *= -self.scale
        position += 0.5
        return position, self.position_error

    def upper_tail(self, k: int) -> arb:
        """Return P(Y >= k - 1/2)."""
        return upper_tail_ball(
            ball(Fraction(2 * k - 1, 2) / Fraction(self.scale)), ball(self.ratio)
        )

    def losses(self, shift: int) -> tuple[OffsetGaussianLoss, ...]:
        """Return the loss of the continuous noise, which bounds that of the rounded noise."""
        return (OffsetGaussianLoss(Fraction(shift) / Fraction(self.scale), Fraction(self.ratio)),)

    @property
    def mean_absolute_error(self) -> float:
        """Return twice the sum over k >= 1 of P(Y >= k - 1/2), by Euler-Maclaurin if long."""
        typical = self.scale * moments(self.ratio)[0]
        if typical >= SMALL:
            return typical - density_at_zero(self.ratio) / (12 * self.scale)
        return float(np.sum(self._tails()))

    @property
    def standard_deviation(self) -> float:
        """Return the square root of the sum over k >= 1 of (2k - 1) 2 P(Y >= k - 1/2)."""
        first, second = moments(self.ratio)
        if self.scale * first >= SMALL:
            # Sheppard's correction 1/12, and one for the kink of the density at zero.
            kink = 7 / 480 * self.ratio * density_at_zero(self.ratio) / self.scale**2
            return math.sqrt(self.scale**2 * second + 1 / 12 + kink)
        tails = self._tails()
        return math.sqrt(float(np.sum((2 * np.arange(1, len(tails) + 1) - 1) * tails)))

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return a sum of chords above the tails, and 0."""
        return log_concave_moments(self)

    def _tails(self) -> Floats:
        """Return P(|Y| >= k - 1/2) for k >= 1, up to negligible values."""
        far = math.sqrt(self.ratio**2 + 2 * MOST_EXPONENT) - self.ratio
        steps = np.arange(1, math.ceil(far * self.scale) + 2, dtype=np.float64)
        return np.exp(log_upper_tail((steps - 0.5) / self.scale, self.ratio))


MECHANISM = OffsetSymmetricGaussian
