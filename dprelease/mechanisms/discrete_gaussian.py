"""Discrete Gaussian mechanism.

Release    q + K, P(K = k) proportional to exp(-k^2 / (2 scale^2)), independently for every cell.
Guarantee  The exact curve delta(epsilon) of the integer noise. The mechanism is also rho-zCDP with
           rho = (D / scale)^2 / 2 for a move by D steps.
Source     Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5, Theorems 4 and 7.
Units      q, K and scale in steps.
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
    use_case: ClassVar[str] = "many answers under an (epsilon, delta) budget: the plain choice"
    has_integer_noise: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 2
    renyi_from_l2_norm: ClassVar[bool] = True

    @property
    def offset(self) -> float:
        """Return 0, because the weights have no offset."""
        return 0.0

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return scale^2, a bound of the variance (Corollary 9 of the source), and the mean 0.

        From a scale of 1 on, this bound is within 2^-22 of the variance. For smaller scales a sum
        of chords is closer to the variance.
        """
        if self.scale < 1:
            return super().variance_bound_and_mean
        return Fraction(self.scale) ** 2, Fraction(0)


MECHANISM = DiscreteGaussian
