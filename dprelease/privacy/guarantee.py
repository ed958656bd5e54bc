"""What a release promises, as a record: no price is computed here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(epsilon, delta), and for zero-concentrated releases rho; all rounded up."""

    epsilon: float
    delta: Fraction
    neighbours: Neighbours
    accountant: str
    pure_epsilon: float
    rho: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values; an infinite pure epsilon is null."""
        return {
            "epsilon": repr(self.epsilon),
            "delta": plain_text(self.delta),
            "neighbours": self.neighbours.value,
            "accountant": self.accountant,
            "pure_epsilon": None if math.isinf(self.pure_epsilon) else repr(self.pure_epsilon),
            "rho": None if self.rho is None else repr(self.rho),
        }
