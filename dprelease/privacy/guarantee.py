"""The privacy guarantee of a release, whose numbers other modules compute."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours

INVARIANTS_SENTENCE = (
    "The guarantee holds between tables that differ by one replaced privacy unit, and whose "
    "invariants are equal. It does not limit what the invariants reveal about a privacy unit."
)
"""Description of a guarantee for releases with invariants."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A guarantee (epsilon, delta), with a rho for zero-concentrated releases, all rounded up.

    If `rho_delta` is above 0, the release is only approximately zero-concentrated: rho does not
    hold for events of this probability, such as the selection of a key that only one person has.
    """

    epsilon: float
    delta: Fraction
    neighbours: Neighbours
    accountant: str
    pure_epsilon: float
    rho: float | None = None
    rho_delta: float = 0.0
    invariants: tuple[str, ...] = ()
    """Names of exactly published values, which must be equal in both neighbouring tables."""

    def __repr__(self) -> str:
        rho = "" if self.rho is None else f", rho {self.rho:g}"
        rho += f" except with probability {self.rho_delta:g}" if self.rho_delta else ""
        return f"<Guarantee: epsilon {self.epsilon:g}, delta {float(self.delta):g}{rho}>"

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values; an infinite pure epsilon is null."""
        invariants_json = (
            {"invariants": [*self.invariants], "holds": INVARIANTS_SENTENCE}
            if self.invariants
            else {}
        )
        return {
            "epsilon": repr(self.epsilon),
            "delta": plain_text(self.delta),
            "neighbours": self.neighbours.value,
            "accountant": self.accountant,
            "pure_epsilon": None if math.isinf(self.pure_epsilon) else repr(self.pure_epsilon),
            "rho": None if self.rho is None else repr(self.rho),
            **({"rho_delta": repr(self.rho_delta)} if self.rho_delta else {}),
            **invariants_json,
        }
