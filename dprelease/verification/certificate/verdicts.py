"""The content of a certificate: for each claim, a proven bound, its theorem and assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dprelease.numerics.rounding import round_up


class Verdict(StrEnum):
    """The verdict on a claim."""

    PROVED = "proved"
    OPEN = "not proved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed privacy cost, `counted` as epsilon or as rho.

    The delta is 0 for a pure epsilon, and for a rho that holds for all outputs.
    """

    counted: str
    claimed: Fraction
    delta: Fraction

    @property
    def words(self) -> str:
        """Return the name of the claim, such as "epsilon at delta 1e-06"."""
        if self.counted == "rho":
            return f"rho up to a delta of {float(self.delta):.3g}" if self.delta else "rho"
        return f"epsilon at delta {float(self.delta):g}" if self.delta else "epsilon at delta 0"


@dataclass(frozen=True, slots=True)
class CertifiedClaim:
    """A claim between two bounds.

    `at_least` is the lower bound of the second opinion on the same claim, if there is one.
    `at_most` is the proven upper bound, None if there is none, and `by` the theorem that proves it.
    `delta_at_most` is a proven upper bound of delta at the claimed epsilon, if available.
    `rests_on` says why a claim is not proved.
    """

    claim: Claim
    verdict: Verdict
    at_least: float | None
    at_most: float | None
    delta_at_most: float | None
    by: str
    rests_on: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the claim and its bounds as JSON values."""
        return {
            "counted": self.claim.counted,
            "delta": None
            if self.claim.counted == "rho" and not self.claim.delta
            else float(self.claim.delta),
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
    """All vectors of one kind: their noise, their columns, their theorem, and their changed cells.

    The changed cells are the cells that one privacy unit can touch.
    """

    noise: str
    columns: tuple[str, ...]
    touched: int
    theorem: str

    def to_json(self) -> dict[str, Any]:
        """Return the vectors of this kind as JSON values."""
        return {
            "noise": self.noise,
            "columns": list(self.columns),
            "cells_of_a_unit": self.touched,
            "theorem": self.theorem,
        }


@dataclass(frozen=True, slots=True)
class Certificate:
    """All claims of a release with their verdicts, and the parts of the release."""

    claims: tuple[CertifiedClaim, ...]
    parts: tuple[CertifiedPart, ...]
    not_covered: tuple[str, ...] = ()
    """Other claims of the release, which the certificate does not cover."""

    @property
    def is_proved(self) -> bool:
        """Return whether all claims of the release are proved."""
        return not self.not_covered and all(c.verdict is Verdict.PROVED for c in self.claims)

    @property
    def status(self) -> str:
        """Return the least favourable verdict of all claims, in words."""
        found = {claim.verdict for claim in self.claims}
        if Verdict.REFUSED in found:
            return Verdict.REFUSED.value
        return (Verdict.PROVED if self.is_proved else Verdict.OPEN).value

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON values."""
        return {
            "proved": self.is_proved,
            "claims": [claim.to_json() for claim in self.claims],
            "parts": [part.to_json() for part in self.parts],
            "not_covered": list(self.not_covered),
        }


def rounded_cost(price: Fraction | None) -> float | None:
    """Return a cost rounded up to a float; None for None, or if no float is large enough."""
    return None if price is None else _round_up_or_none(price)


def _round_up_or_none(price: Fraction) -> float | None:
    """Return a cost rounded up to a float; None if no float is large enough."""
    try:
        found = round_up(price)
    except OverflowError:  # UNBOUNDED, for example
        return None
    return found if math.isfinite(found) else None
