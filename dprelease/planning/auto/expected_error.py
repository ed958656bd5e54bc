"""The expected error of a whole release for a choice of candidates, roughly and truly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.errors import BudgetError
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.auto.candidates import Candidate
from dprelease.planning.auto.ledger_cost import Charged
from dprelease.planning.budget_shares import Share, spend
from dprelease.planning.calibration import Draft, Factors, priced
from dprelease.planning.noise_requests import NoiseRequest, Options
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move

COARSE = 64
"""Steps that sensitivities are scaled down to while candidates are compared roughly."""


@dataclass(frozen=True)
class Pricing:
    """What makes drafts of candidates comparable: their budget, and how it is shared.

    `charged`: what a ledger counts; errors are then compared for the same charge. `factors`: what
    was solved already, see `draft.solve`.
    """

    requests: Sequence[NoiseRequest]
    share: Share
    budget: Budget
    unlimited: bool
    charged: Charged | None
    factors: Factors

    def drafts(self, chosen: Sequence[Candidate]) -> list[Draft]:
        """Return the drafts of all columns, one candidate for each."""
        return [
            request.draft(candidate.family, dict(candidate.shape))
            for request, candidate in zip(self.requests, chosen, strict=True)
        ]

    def rough(self, chosen: Sequence[Candidate]) -> float:
        """Return about the error, by rough prices of coarse lattices; infinity if there is none.

        A draft of whose true lattice there surely is no law has none.
        """
        drafts = self.drafts(chosen)
        coarse = drafts if self.budget.needs_pure_noise else [_coarse(draft) for draft in drafts]
        try:
            laws = self._spent(coarse, rough=True)
        except BudgetError:
            return math.inf
        for draft, other, law in zip(drafts, coarse, laws, strict=True):
            if draft is not other and not draft.admits(law.scale / float(other.base)):
                return math.inf
        return self._error(coarse, laws, rough=True)

    def true(self, chosen: Sequence[Candidate]) -> float:
        """Return the error of what would be made; infinity if it can't be.

        Only of what can be made the price is known to be true: no lattice is coarsened here.
        """
        drafts = self.drafts(chosen)
        try:
            laws = self._spent(drafts, rough=False)
        except BudgetError:
            return math.inf
        return self._error(drafts, laws, rough=False)

    def why(self, choices: Iterable[Sequence[Candidate]]) -> BudgetError | None:
        """Return why none of some choices can be made: what is said of the least dear one."""
        reasons = [self._reason(chosen) for chosen in choices]
        errors = [reason for reason in reasons if reason is not None]
        return min(errors, key=lambda reason: reason.price, default=None)

    def _reason(self, chosen: Sequence[Candidate]) -> BudgetError | None:
        try:
            self._spent(self.drafts(chosen), rough=False)
        except BudgetError as error:
            return error
        return None

    def _spent(self, drafts: Sequence[Draft], *, rough: bool) -> list[Randomizer]:
        return spend(
            self.share,
            drafts,
            self.budget,
            unlimited=self.unlimited,
            known=self.factors,
            rough=rough,
        )

    def _error(self, drafts: list[Draft], laws: list[Randomizer], *, rough: bool) -> float:
        """Return the sum of errors, each in units of its column's sensitivity and by its weight.

        Where a ledger counts, times the length of the charge; the price alone where all columns
        settle themselves by an accuracy.
        """
        vectors = [priced(law, draft.sensitivity) for law, draft in zip(laws, drafts, strict=True)]
        size = 1.0 if self.charged is None else self.charged.size(vectors, rough=rough)
        total, counted = 0.0, False
        known: dict[tuple[Options, Randomizer], float] = {}
        for request, law, draft in zip(self.requests, laws, drafts, strict=True):
            if draft.width is not None:
                continue
            counted = True
            if (request.options, law) not in known:
                known[request.options, law] = request.options.error(law)
            error = known[request.options, law] / draft.sensitivity.largest_shift
            total += error * float(draft.weight)
        if counted:
            return total * size
        return self.budget.price(vectors) if self.charged is None else size


def _coarse(draft: Draft) -> Draft:
    """Return the draft with shifts of at most `COARSE` steps, so that alike columns merge.

    A draft with a declared accuracy, or with lengths in its shape, keeps its lattice.
    """
    largest = draft.sensitivity.largest_shift
    lengths = {shape.name for shape in draft.kind.shapes if shape.in_units} & draft.shape.keys()
    if largest <= COARSE or draft.width is not None or lengths:
        return draft
    moves = tuple(
        Move(max(1, round(Fraction(move.shift * COARSE, largest))), move.cells)
        for move in draft.sensitivity.moves
    )
    return replace(draft, sensitivity=replace(draft.sensitivity, moves=moves))
