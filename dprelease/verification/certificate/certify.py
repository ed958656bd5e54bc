"""Certify the claims of a release: prove upper bounds of its cost from the recorded noise.

The second opinion computes a lower bound of the cost of the published integers, and this module an
upper bound. The module uses nothing from the planner's accountant: no losses, no privacy curves and
no compositions. Floats only select where to search. Probabilities are balls (intervals of ball
arithmetic), losses are composed in whole numbers, and closed forms are evaluated in exact rationals
or balls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from flint import ctx

from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.numerics.rounding import exact
from dprelease.privacy.guarantee import Event
from dprelease.verification.certificate.epsilon_bounds import (
    Bound,
    epsilon_bounds,
    pure_bounds,
    rho_bounds,
)
from dprelease.verification.certificate.kinds import VectorKind, vector_kinds_of
from dprelease.verification.certificate.verdicts import (
    Certificate,
    CertifiedClaim,
    CertifiedPart,
    Claim,
    Verdict,
    rounded_cost,
)

if TYPE_CHECKING:
    from dprelease.verification.second_opinion import Opinion

NEAR = Fraction(1, 256)
"""Relative distance to a bound within which an unproved claim is not rejected."""

CLOSE = "a look that was not finer: what is proved lies within a 256th of the claim"
FAR = "losses that reach too far for a grid, or have no bound here"

PRECISION = 256
"""The precision of balls in bits, where no step sets a higher precision."""

UNKNOWN = "nothing is proved about the losses of {noise}"


def claims_of(guarantee: GuaranteeRecord) -> list[Claim]:
    """Return the claims of a recorded guarantee, as exact numbers.

    The manifest writes each cost as a text. The claimed cost is the float that the text is read as,
    or the exact number in the text if that number is larger. The texts are untrusted, so numbers
    are checked before any computation with them.

    Raises ValueError for an invalid cost, or a delta that is not a probability.
    """
    delta = exact(guarantee.delta)
    if not 0 <= delta < 1:
        raise ValueError("a delta is a probability below 1")
    claims = []
    if guarantee.rho is not None:
        exempt = _claimed_cost(guarantee.rho_delta or "0")
        if exempt >= 1:
            raise ValueError("a delta is a probability below 1")
        claims.append(Claim("rho", _claimed_cost(guarantee.rho), exempt))
    claims.append(Claim("epsilon", _claimed_cost(guarantee.epsilon), delta))
    if delta and guarantee.pure_epsilon is not None:
        claims.append(Claim("epsilon", _claimed_cost(guarantee.pure_epsilon), Fraction(0)))
    return claims


def _claimed_cost(text: str) -> Fraction:
    """Return the cost that a text claims; raise ValueError if it is not a cost."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError("a cost is a finite number, not below 0")
    return max(exact(text), Fraction(number))


def certify(
    events: Sequence[Event], claims: Sequence[Claim], opinion: Opinion | None = None
) -> Certificate:
    """Return the certificate of claims about all recorded events together.

    - `opinion`: the second opinion, included in the certificate.

    Raises BudgetError: DP-MECH-001 to 005 for an unknown mechanism or invalid parameters.
    """
    with ctx.workprec(_bits_of_deltas(claims) + _bits_of_scales(events)):
        proof = _Proof(vector_kinds_of(events))
        return Certificate(
            tuple(proof.certify_claim(claim, opinion) for claim in claims),
            tuple(_certified_part(kind) for kind in proof.kinds),
        )


def _bits_of_deltas(claims: Sequence[Claim]) -> int:
    """Return a precision in bits that is far finer than the smallest delta and its truncation."""
    least = min((claim.delta for claim in claims if claim.delta), default=Fraction(1))
    # Next to a probability near 1, a delta of 2**-k is lost in fewer than k bits.
    return PRECISION + int(1 / least).bit_length()


def _bits_of_scales(events: Sequence[Event]) -> int:
    """Return a precision in bits that is enough for the largest noise scale."""
    scales = (Fraction(dict(event.parameters)["scale"]) for event in events)
    return 2 * max((int(scale).bit_length() for scale in scales), default=0)


@dataclass(slots=True)
class _Proof:
    """Proves claims about the same vectors one by one; the next claim can use a proved rho."""

    kinds: list[VectorKind]
    rho: Fraction | None = None

    def certify_claim(self, claim: Claim, opinion: Opinion | None) -> CertifiedClaim:
        """Return the certified claim."""
        best = _first_bound_within(self._bounds(claim), claim.claimed)
        verdict, rests = self._verdict(claim, best)
        if best is not None and best.at_most <= claim.claimed and claim.counted == "rho":
            # An epsilon can follow from a rho only if that rho is proved.
            self.rho = best.at_most
        return CertifiedClaim(
            claim,
            verdict,
            _lower_bound(claim, opinion),
            None if best is None else rounded_cost(best.at_most),
            None if best is None else rounded_cost(best.delta),
            "" if best is None else best.by,
            rests,
        )

    def _verdict(self, claim: Claim, best: Bound | None) -> tuple[Verdict, tuple[str, ...]]:
        """Return the verdict on a claim, and why it is not proved."""
        if best is not None and best.at_most <= claim.claimed:
            return Verdict.PROVED, ()
        loose = [kind.mechanism.name for kind in self.kinds if not kind.losses.tight]
        grounds = dict.fromkeys(UNKNOWN.format(noise=name) for name in loose)
        if best is None:
            grounds[FAR] = None
        elif not loose and best.at_most * (1 - NEAR) <= claim.claimed:
            grounds[CLOSE] = None
        return (Verdict.OPEN if grounds else Verdict.REFUSED), tuple(grounds)

    def _bounds(self, claim: Claim) -> Iterable[Bound]:
        """Return bounds of the claimed cost, to try one by one."""
        if claim.counted == "rho":
            return rho_bounds(self.kinds, claim.delta, claim.claimed)
        if not claim.delta:
            return pure_bounds(self.kinds)
        return epsilon_bounds(self.kinds, claim.delta, claim.claimed, self.rho)


def _first_bound_within(bounds: Iterable[Bound], aim: Fraction) -> Bound | None:
    """Return the first bound that is at most `aim`, or else the smallest of all bounds."""
    best: Bound | None = None
    for bound in bounds:
        if best is None or bound.at_most < best.at_most:
            best = bound
        # Later bounds take longer, and a smaller one would prove nothing more.
        if best.at_most <= aim:
            break
    return best


def _lower_bound(claim: Claim, opinion: Opinion | None) -> float | None:
    """Return the lower bound of the second opinion for the same claim."""
    same = opinion is not None and opinion.counted == claim.counted
    # The opinion may be about another claim, such as a rho.
    if opinion is None or not same or opinion.claimed != float(claim.claimed):
        return None
    return opinion.at_least


def _certified_part(kind: VectorKind) -> CertifiedPart:
    """Return one kind of vectors as the certificate describes it."""
    shown = ", ".join(
        f"{name} {text if len(text) < LONGEST_TEXT else '...'}"
        for name, text in kind.mechanism.parameters
    )
    meeting_note = "; where parts of a change meet, " + MEETING if kind.parts_can_meet else ""
    few_cells_note = "; " + FEW_CELLS if kind.sensitivity.of_all_rows else ""
    return CertifiedPart(
        f"{kind.mechanism.name} ({shown})",
        kind.columns,
        kind.cells_of_unit,
        kind.losses.theorem + meeting_note + few_cells_note,
    )


LONGEST_TEXT = 40
FEW_CELLS = "changes of many cells cost at most as much as the same sum in few cells"
MEETING = "largest losses or Rényi divergences of L2 norms add up"
