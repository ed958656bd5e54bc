"""The expected error of a whole release for a choice of candidates, roughly and truly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.errors import BudgetError
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.auto.candidates import Candidate
from dprelease.planning.auto.ledger_cost import LedgerCost
from dprelease.planning.budget_shares import Share, spend
from dprelease.planning.calibration import Factors, UnscaledNoise, make_accounting_input
from dprelease.planning.noise_requests import NoiseRequest, Options
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move

COARSE = 64
"""Steps that sensitivities are scaled down to while candidates are compared roughly."""


@dataclass(frozen=True)
class Pricing:
    """What makes noises of candidates comparable: their budget, and how it is shared.

    `charged`: what a ledger counts; errors are then compared for the same charge. `factors`: what
    was solved already, see `calibration.solve`.
    """

    requests: Sequence[NoiseRequest]
    share: Share
    budget: Budget
    unlimited: bool
    charged: LedgerCost | None
    factors: Factors

    def noises(self, chosen: Sequence[Candidate]) -> list[UnscaledNoise]:
        """Return the noises of all columns, one candidate for each."""
        return [
            request.noise(candidate.family, dict(candidate.shape))
            for request, candidate in zip(self.requests, chosen, strict=True)
        ]

    def rough(self, chosen: Sequence[Candidate]) -> float:
        """Return about the error, by rough prices of coarse lattices; infinity if there is none.

        One of whose true lattice there surely is no law has none.
        """
        noises = self.noises(chosen)
        coarse = noises if self.budget.needs_pure_noise else [_coarse(noise) for noise in noises]
        try:
            laws = self._spent(coarse, rough=True)
        except BudgetError:
            return math.inf
        for noise, other, law in zip(noises, coarse, laws, strict=True):
            if noise is not other and not noise.admits(law.scale / float(other.base)):
                return math.inf
        return self._error(coarse, laws, rough=True)

    def true(self, chosen: Sequence[Candidate]) -> float:
        """Return the error of what would be made; infinity if it can't be.

        Only of what can be made the price is known to be true: no lattice is coarsened here.
        """
        noises = self.noises(chosen)
        try:
            laws = self._spent(noises, rough=False)
        except BudgetError:
            return math.inf
        return self._error(noises, laws, rough=False)

    def why(self, choices: Iterable[Sequence[Candidate]]) -> BudgetError | None:
        """Return why none of some choices can be made: what is said of the least dear one."""
        reasons = [self._reason(chosen) for chosen in choices]
        errors = [reason for reason in reasons if reason is not None]
        return min(errors, key=lambda reason: reason.price, default=None)

    def _reason(self, chosen: Sequence[Candidate]) -> BudgetError | None:
        try:
            self._spent(self.noises(chosen), rough=False)
        except BudgetError as error:
            return error
        return None

    def _spent(self, noises: Sequence[UnscaledNoise], *, rough: bool) -> list[Randomizer]:
        return spend(
            self.share,
            noises,
            self.budget,
            unlimited=self.unlimited,
            known=self.factors,
            rough=rough,
        )

    def _error(self, noises: list[UnscaledNoise], laws: list[Randomizer], *, rough: bool) -> float:
        """Return the sum of errors, each in units of its column's sensitivity and by its weight.

        Where a ledger counts, times the length of the charge; the price alone where all columns
        settle themselves by an accuracy.
        """
        vectors = [
            make_accounting_input(law, noise.sensitivity)
            for law, noise in zip(laws, noises, strict=True)
        ]
        size = 1.0 if self.charged is None else self.charged.size(vectors, rough=rough)
        total, counted = 0.0, False
        known: dict[tuple[Options, Randomizer], float] = {}
        for request, law, noise in zip(self.requests, laws, noises, strict=True):
            if noise.width is not None:
                continue
            counted = True
            if (request.options, law) not in known:
                known[request.options, law] = request.options.error(law)
            error = known[request.options, law] / noise.sensitivity.largest_shift
            total += error * float(noise.weight)
        if counted:
            return total * size
        return self.budget.price(vectors) if self.charged is None else size


def percent(more: float) -> str:
    """Return how much more an error is, in percent; shortly where that is huge."""
    times = 100 * max(0.0, more)
    return f"{times:.3f}" if times < 1e6 else f"{times:.3g}"


def _coarse(noise: UnscaledNoise) -> UnscaledNoise:
    """Return the noise with shifts of at most `COARSE` steps, so that alike columns merge.

    A noise with a declared accuracy, or with lengths in its shape, keeps its lattice.
    """
    largest = noise.sensitivity.largest_shift
    lengths = {shape.name for shape in noise.kind.shapes if shape.in_units} & noise.shape.keys()
    if largest <= COARSE or noise.width is not None or lengths:
        return noise
    moves = tuple(
        Move(max(1, round(Fraction(move.shift * COARSE, largest))), move.cells)
        for move in noise.sensitivity.moves
    )
    return replace(noise, sensitivity=replace(noise.sensitivity, moves=moves))
