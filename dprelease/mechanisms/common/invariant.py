"""No noise: how an invariant is published, outside the guarantee.

No file can ask for it by name, and no accountant has a finite price for it: a place that forgets to
leave invariants out of a price refuses the release, and doesn't give them away.
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
    """True values as they are: 0 in every cell, and nothing that bounds what it tells."""

    scale: float = 1.0

    name: ClassVar[str] = "invariant"
    summary: ClassVar[str] = "no noise: true values, outside the guarantee"
    use: ClassVar[str] = "only where `invariants` declares it, by name"
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    integers: ClassVar[bool] = True

    @property
    def moments_above(self) -> tuple[Fraction, Fraction]:
        """Return no variance and no mean, exactly."""
        return Fraction(0), Fraction(0)

    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return a loss that nothing bounds."""
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
        """Return 0, for sure."""
        return np.zeros(len(u)), np.ones(len(u), bool)

    def upper_tail(self, k: int) -> arb:
        """Return 0: K is never 1 or more."""
        return arb(0)
