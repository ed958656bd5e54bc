"""The expected error of a whole release for some candidates, approximately and exactly."""

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
"""Steps to which sensitivities are scaled down for approximate comparisons."""


@dataclass(frozen=True)
class Pricing:
    """The conditions under which noises are compared: their budget, and how it is divided.

    `charged`: the ledger's measure; errors are then compared for the same charge. `factors`:
    factors that were solved before, see `calibration.solve`.
    """

    requests: Sequence[NoiseRequest]
    share: Share
    budget: Budget
    unlimited: bool
    charged: LedgerCost | None
    factors: Factors

    def noises(self, candidates: Sequence[Candidate]) -> list[UnscaledNoise]:
        """Return the noises of all columns, one candidate for each."""
        return [
            request.noise(candidate.family, dict(candidate.shape))
            for request, candidate in zip(self.requests, candidates, strict=True)
        ]

    def rough(self, candidates: Sequence[Candidate]) -> float:
        """Return the approximate error, with coarse steps; infinity if there is no such noise.

        It is also infinite if a mechanism certainly does not exist for the true steps.
        """
        noises = self.noises(candidates)
        coarse = noises if self.budget.needs_pure_noise else [_coarse(noise) for noise in noises]
        try:
            mechanisms = self._spent(coarse, rough=True)
        except BudgetError:
            return math.inf
        for noise, other, mechanism in zip(noises, coarse, mechanisms, strict=True):
            if noise is not other and not noise.admits(mechanism.scale / float(other.base)):
                return math.inf
        return self._error(coarse, mechanisms, rough=True)

    def true(self, candidates: Sequence[Candidate]) -> float:
        """Return the exact error; infinity if the noise is impossible.

        The cost is exact only for possible noise: steps are not coarsened here.
        """
        noises = self.noises(candidates)
        try:
            mechanisms = self._spent(noises, rough=False)
        except BudgetError:
            return math.inf
        return self._error(noises, mechanisms, rough=False)

    def why(self, choices: Iterable[Sequence[Candidate]]) -> BudgetError | None:
        """Return why none of some choices is possible: the error of the cheapest one."""
        reasons = [self._reason(candidates) for candidates in choices]
        errors = [reason for reason in reasons if reason is not None]
        return min(errors, key=lambda reason: reason.price, default=None)

    def _reason(self, candidates: Sequence[Candidate]) -> BudgetError | None:
        try:
            self._spent(self.noises(candidates), rough=False)
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

    def _error(
        self, noises: list[UnscaledNoise], mechanisms: list[Randomizer], *, rough: bool
    ) -> float:
        """Return the sum of errors, each in units of its column's sensitivity and times its weight.

        With a ledger, it is multiplied by the size of the charge; if all columns declare an
        accuracy, it is the cost alone.
        """
        vectors = [
            make_accounting_input(mechanism, noise.sensitivity)
            for mechanism, noise in zip(mechanisms, noises, strict=True)
        ]
        size = 1.0 if self.charged is None else self.charged.size(vectors, rough=rough)
        total, counted = 0.0, False
        known: dict[tuple[Options, Randomizer], float] = {}
        for request, mechanism, noise in zip(self.requests, mechanisms, noises, strict=True):
            if noise.width is not None:
                continue
            counted = True
            if (request.options, mechanism) not in known:
                known[request.options, mechanism] = request.options.error(mechanism)
            error = known[request.options, mechanism] / noise.sensitivity.largest_shift
            total += error * float(noise.weight)
        if counted:
            return total * size
        return self.budget.price(vectors) if self.charged is None else size


def percent(more: float) -> str:
    """Return the increase of an error in percent, abbreviated if it is huge."""
    times = 100 * max(0.0, more)
    return f"{times:.3f}" if times < 1e6 else f"{times:.3g}"


def _coarse(noise: UnscaledNoise) -> UnscaledNoise:
    """Return the noise with shifts of at most `COARSE` steps, so that similar columns merge.

    A noise with a declared accuracy, or with lengths in its shape, keeps its steps.
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
