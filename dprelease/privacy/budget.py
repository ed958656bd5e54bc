"""The privacy budget of a release: a pure epsilon, an epsilon at a delta, or a rho."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Self

from dprelease.privacy.accounting import FINE, Precision, epsilon_at
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import approximate_rho_of


class Variant(StrEnum):
    """Definitions of differential privacy that a budget can use."""

    PURE = "pure"
    APPROXIMATE = "approximate"
    ZERO_CONCENTRATED = "zero_concentrated"


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget. Its amount is a rho for a zero-concentrated budget, else an epsilon.

    `delta` is 0 for pure budgets. For a zero-concentrated budget, `delta` is the delta at which an
    epsilon is reported. The selection of private keys may spend a part of it, but only if the
    budget declares it (`has_declared_delta`).
    """

    variant: Variant
    amount: Fraction
    delta: Fraction
    has_declared_delta: bool = True

    @classmethod
    def of(cls, *, epsilon: Fraction, delta: Fraction) -> Self:
        """Return a budget of epsilon and delta; it is pure if delta is 0."""
        return cls(Variant.APPROXIMATE if delta else Variant.PURE, epsilon, delta)

    @property
    def needs_pure_noise(self) -> bool:
        """Return whether only mechanisms with a bounded loss are allowed."""
        return self.variant is Variant.PURE

    @property
    def can_select_keys(self) -> bool:
        """Return whether the budget has a delta that the selection of private keys can spend."""
        return bool(self.delta) and self.has_declared_delta

    @property
    def needs_concentration(self) -> bool:
        """Return whether mechanisms need a zero-concentrated guarantee."""
        return self.variant is Variant.ZERO_CONCENTRATED

    def cost_of(self, vectors: Sequence[PricedVector], precision: Precision = FINE) -> float:
        """Return the privacy cost of all vectors together, rounded up; infinity if unbounded."""
        if self.variant is Variant.ZERO_CONCENTRATED:
            rho, delta = approximate_rho_of(vectors, rough=precision is not FINE)
            # Not equal to it: the rest of delta is for the conversion of rho to an epsilon.
            return rho if delta < self.delta else math.inf
        return epsilon_at(vectors, self.delta, precision)

    def with_amount(self, amount: Fraction) -> Self:
        """Return a budget with another amount, of the same variant and with the same delta."""
        return replace(self, amount=amount)
