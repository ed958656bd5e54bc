"""Discrete Gaussian mechanism.

Release    q + K, P(K = k) proportional to exp(-k^2 / (2 scale^2)), independently for every cell.
Guarantee  The curve delta(epsilon) of the integers themselves; also (D / scale)^2 / 2 - zCDP.
Source     Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5, Theorems 4 and 7.
Units      q, K and scale in lattice steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dprelease.mechanisms.common.offset_lattice import OffsetLattice


@dataclass(frozen=True)
class DiscreteGaussian(OffsetLattice):
    """Noise on the integers, proportional to exp(-k^2 / (2 scale^2))."""

    name: ClassVar[str] = "discrete_gaussian"
    summary: ClassVar[str] = "Gaussian noise on the integers; approximate, thin tails"
    use: ClassVar[str] = "many answers under an (epsilon, delta) budget: the plain choice"
    integers: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    by_squares: ClassVar[bool] = True

    @property
    def offset(self) -> float:
        """Return 0."""
        return 0.0

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return scale^2, a bound of the variance (Corollary 9 of the source), and the mean 0.

        From a scale of 1 on it is within 2^-22 of the variance; below, chords are nearer.
        """
        if self.scale < 1:
            return super().moments_above
        return Fraction(self.scale) ** 2, Fraction(0)


MECHANISM = DiscreteGaussian
