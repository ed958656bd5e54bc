"""What a release may spend: pure epsilon, epsilon at a delta, or rho."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Self

from dprelease.privacy.accounting import FINE, Precision, epsilon_at
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import rho_of


class Variant(StrEnum):
    """Definitions of differential privacy that a budget can be given in."""

    PURE = "pure"
    APPROXIMATE = "approximate"
    ZERO_CONCENTRATED = "zero_concentrated"


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount, epsilon or rho by the variant; `delta` is 0 for pure budgets.

    For a zero-concentrated budget, `delta` is only where its epsilon is reported.
    """

    variant: Variant
    amount: Fraction
    delta: Fraction

    @classmethod
    def of(cls, *, epsilon: Fraction, delta: Fraction) -> Self:
        """Return a budget of an epsilon, pure where delta is 0."""
        return cls(Variant.APPROXIMATE if delta else Variant.PURE, epsilon, delta)

    @property
    def needs_pure_noise(self) -> bool:
        """Return whether only mechanisms with a bounded loss have a price."""
        return self.variant is Variant.PURE

    @property
    def needs_concentration(self) -> bool:
        """Return whether a mechanism has to have a zero-concentrated guarantee."""
        return self.variant is Variant.ZERO_CONCENTRATED

    def price(self, vectors: Sequence[PricedVector], precision: Precision = FINE) -> float:
        """Return what all vectors cost together, rounded up; infinity if there is no guarantee."""
        if self.variant is Variant.ZERO_CONCENTRATED:
            return rho_of(vectors, rough=precision is not FINE)
        return epsilon_at(vectors, self.delta, precision)

    def but(self, amount: Fraction) -> Self:
        """Return a budget of the same kind with another amount."""
        return replace(self, amount=amount)
