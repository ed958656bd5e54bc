"""A mechanism without noise, for publishing invariants outside the guarantee.

No release file can name this mechanism. Its privacy cost is infinite, so code that forgets to
exclude invariants from a privacy cost refuses the release and does not reveal them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import SymmetricMechanism
from dprelease.numerics.lattice import Flags, Floats
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.losses.normal import ConcentratedLoss


@dataclass(frozen=True)
class Invariant(SymmetricMechanism):
    """A mechanism that adds 0 to every true value, with an unbounded privacy loss."""

    scale: float = 1.0

    name: ClassVar[str] = "invariant"
    summary: ClassVar[str] = "no noise: true values, outside the guarantee"
    use_case: ClassVar[str] = "only where `invariants` declares it, by name"
    pure: ClassVar[bool] = False
    sensitivity_norm: ClassVar[int] = 2
    has_integer_noise: ClassVar[bool] = True

    @property
    def variance_bound_and_mean(self) -> tuple[Fraction, Fraction]:
        """Return the exact variance, 0, and the exact mean, 0."""
        return Fraction(0), Fraction(0)

    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return a privacy loss without a bound."""
        # Not an infinite `PureLoss`: its epsilon is a fraction, which can't be infinite.
        return (ConcentratedLoss(math.inf),)

    @property
    def mean_absolute_error(self) -> float:
        """Return 0, because no noise is added."""
        return 0.0

    @property
    def standard_deviation(self) -> float:
        """Return 0, because no noise is added."""
        return 0.0

    def half_width(self, confidence: float) -> int:
        """Return 0, because no noise is added."""
        return 0

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the quantile 0 for every probability, flagged as certain."""
        return np.zeros(len(u)), np.ones(len(u), bool)

    def upper_tail(self, k: int) -> arb:
        """Return the probability 0, because K is never 1 or more."""
        return arb(0)
