"""No noise, for publishing invariants outside the guarantee.

No release file can name it, and its privacy cost is infinite: code that forgets to exclude
invariants from a cost refuses the release, and doesn't reveal them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import Symmetric
from dprelease.numerics.lattice import Flags, Floats
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.losses.concentrated import ConcentratedLoss


@dataclass(frozen=True)
class Invariant(Symmetric):
    """True values without noise: 0 in every cell, with an unbounded privacy loss."""

    scale: float = 1.0

    name: ClassVar[str] = "invariant"
    summary: ClassVar[str] = "no noise: true values, outside the guarantee"
    use: ClassVar[str] = "only where `invariants` declares it, by name"
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    integers: ClassVar[bool] = True

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return the exact variance 0 and mean 0."""
        return Fraction(0), Fraction(0)

    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return an unbounded loss."""
        return (ConcentratedLoss(math.inf),)

    @property
    def mean_absolute_error(self) -> float:
        """Return 0."""
        return 0.0

    @property
    def standard_deviation(self) -> float:
        """Return 0."""
        return 0.0

    def half_width(self, confidence: float) -> int:
        """Return 0."""
        return 0

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return 0, which is certain."""
        return np.zeros(len(u)), np.ones(len(u), bool)

    def upper_tail(self, k: int) -> arb:
        """Return 0: K is never 1 or more."""
        return arb(0)
