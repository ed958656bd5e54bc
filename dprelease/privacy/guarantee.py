"""What a release promises, as a record: no price is computed here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours

HOLDS = (
    "The guarantee holds between tables that differ by one replaced privacy unit, and whose "
    "invariants are equal. It does not limit what the invariants reveal about a privacy unit."
)
"""What a guarantee beside invariants is."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(epsilon, delta), and for zero-concentrated releases rho; all rounded up."""

    epsilon: float
    delta: Fraction
    neighbours: Neighbours
    accountant: str
    pure_epsilon: float
    rho: float | None = None
    invariants: tuple[str, ...] = ()
    """What is published exactly: the guarantee holds between neighbours that agree in it."""

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values; an infinite pure epsilon is null."""
        between = {"invariants": [*self.invariants], "holds": HOLDS} if self.invariants else {}
        return {
            "epsilon": repr(self.epsilon),
            "delta": plain_text(self.delta),
            "neighbours": self.neighbours.value,
            "accountant": self.accountant,
            "pure_epsilon": None if math.isinf(self.pure_epsilon) else repr(self.pure_epsilon),
            "rho": None if self.rho is None else repr(self.rho),
            **between,
        }
