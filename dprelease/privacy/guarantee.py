"""The guarantee of a release, as a record; the cost is computed elsewhere."""

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
"""Description of a guarantee for releases with invariants."""


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
    """Values published exactly: the guarantee is for neighbours that agree in these."""

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
