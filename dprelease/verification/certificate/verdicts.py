"""The content of a certificate: for each claim, the proven bound, theorem and assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dprelease.numerics.rounding import round_up


class Verdict(StrEnum):
    """The result for a claim."""

    PROVED = "proved"
    RESTS = "proved under assumptions"
    OPEN = "not proved"
    REFUSED = "refused"

    @property
    def holds(self) -> bool:
        """Return whether the claim is proved, possibly under assumptions."""
        return self in (Verdict.PROVED, Verdict.RESTS)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a release: a cost, `counted` as epsilon or as rho; delta 0 for a pure one."""

    counted: str
    claimed: Fraction
    delta: Fraction

    @property
    def words(self) -> str:
        """Return the name of the claim, such as "epsilon at delta 1e-06"."""
        if self.counted == "rho":
            return "rho"
        return f"epsilon at delta {float(self.delta):g}" if self.delta else "epsilon at delta 0"


@dataclass(frozen=True, slots=True)
class CertifiedClaim:
    """A claim between two bounds.

    `at_least`: the lower bound of the second opinion on the same claim, if requested. `at_most`:
    the proven upper bound, None if there is none; `by`: the theorem. `delta_at_most`: at the
    claimed epsilon, if available. `rests_on`: assumptions.
    """

    claim: Claim
    verdict: Verdict
    at_least: float | None
    at_most: float | None
    delta_at_most: float | None
    by: str
    rests_on: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "counted": self.claim.counted,
            "delta": None if self.claim.counted == "rho" else float(self.claim.delta),
            "claimed": _round_up_or_none(self.claim.claimed),
            "at_least": self.at_least,
            "at_most": self.at_most,
            "delta_at_most": self.delta_at_most,
            "verdict": self.verdict.value,
            "by": self.by,
            "rests_on": list(self.rests_on),
        }


@dataclass(frozen=True, slots=True)
class CertifiedPart:
    """Vectors of one kind: the proven bound for one cell, and a privacy unit's cells."""

    noise: str
    columns: tuple[str, ...]
    touched: int
    theorem: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "noise": self.noise,
            "columns": list(self.columns),
            "cells_of_a_unit": self.touched,
            "theorem": self.theorem,
        }


@dataclass(frozen=True, slots=True)
class Certificate:
    """All claims of a release, and its parts."""

    claims: tuple[CertifiedClaim, ...]
    parts: tuple[CertifiedPart, ...]
    beside: tuple[str, ...] = ()
    """Other claims of the release, which the certificate does not cover."""

    @property
    def is_proved(self) -> bool:
        """Return whether all claims are proved without assumptions."""
        return not self.beside and all(c.verdict is Verdict.PROVED for c in self.claims)

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON values."""
        return {
            "proved": self.is_proved,
            "claims": [claim.to_json() for claim in self.claims],
            "parts": [part.to_json() for part in self.parts],
            "beside": list(self.beside),
        }


def rounded_price(price: Fraction | None) -> float | None:
    """Return a float >= `price`; None for None, or if no float is large enough."""
    return None if price is None else _round_up_or_none(price)


def _round_up_or_none(price: Fraction) -> float | None:
    try:
        found = round_up(price)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
