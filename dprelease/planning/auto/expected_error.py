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
from dprelease.planning.budget_shares import Share, spend_budget
from dprelease.planning.calibration import Factors, UnscaledNoise, make_accounting_input
from dprelease.planning.noise_requests import AutoOptions, NoiseRequest
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move

COARSE_STEPS = 64
"""Sensitivities are scaled down to at most so many steps for approximate comparisons."""


@dataclass(frozen=True)
class ErrorEstimator:
    """Estimates the error of a release under one budget, for a candidate of each column.

    `charged` is the measure of the ledger; errors are then compared for the same charge. `factors`
    are the factors that `calibration.solve_scales` found before.
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

    def approximate_error(self, candidates: Sequence[Candidate]) -> float:
        """Return the approximate error, computed with coarse steps.

        The error is infinite if no such noise fits the budget, or if a mechanism certainly does not
        exist for the exact steps.
        """
        noises = self.noises(candidates)
        coarse = [*noises] if self.budget.needs_pure_noise else [*map(_with_coarse_steps, noises)]
        try:
            mechanisms = self._mechanisms(coarse, rough=True)
        except BudgetError:
            return math.inf
        for noise, coarse_noise, mechanism in zip(noises, coarse, mechanisms, strict=True):
            factor = mechanism.scale / float(coarse_noise.base)
            if noise is not coarse_noise and not noise.admits(factor):
                return math.inf
        return self._release_error(coarse, mechanisms, rough=True)

    def exact_error(self, candidates: Sequence[Candidate]) -> float:
        """Return the error computed with exact steps and costs; infinity if no such noise fits."""
        noises = self.noises(candidates)
        try:
            mechanisms = self._mechanisms(noises, rough=False)
        except BudgetError:
            return math.inf
        return self._release_error(noises, mechanisms, rough=False)

    def least_cost_error(self, choices: Iterable[Sequence[Candidate]]) -> BudgetError | None:
        """Return the error that each choice raises, from the choice with the least cost."""
        errors = [self._budget_error(candidates) for candidates in choices]
        raised = [error for error in errors if error is not None]
        return min(raised, key=lambda error: error.price, default=None)

    def _budget_error(self, candidates: Sequence[Candidate]) -> BudgetError | None:
        """Return the error of candidates that can't share the budget; None if they can."""
        try:
            self._mechanisms(self.noises(candidates), rough=False)
        except BudgetError as error:
            return error
        return None

    def _mechanisms(self, noises: Sequence[UnscaledNoise], *, rough: bool) -> list[Randomizer]:
        """Return the mechanisms of these noises if together they spend the budget."""
        return spend_budget(
            self.share,
            noises,
            self.budget,
            unlimited=self.unlimited,
            known=self.factors,
            rough=rough,
        )

    def _release_error(
        self, noises: list[UnscaledNoise], mechanisms: list[Randomizer], *, rough: bool
    ) -> float:
        """Return the weighted sum of the columns' errors, each in units of its sensitivity.

        With a ledger, the sum is multiplied by the size of the charge. If all columns declare an
        accuracy, the result is the cost instead.
        """
        vectors = [
            make_accounting_input(mechanism, noise.sensitivity)
            for mechanism, noise in zip(mechanisms, noises, strict=True)
        ]
        charge = 1.0 if self.charged is None else self.charged.charge_size(vectors, rough=rough)
        total, counted = 0.0, False
        known: dict[tuple[AutoOptions, Randomizer], float] = {}
        for request, mechanism, noise in zip(self.requests, mechanisms, noises, strict=True):
            if noise.width is not None:
                continue
            counted = True
            if (request.options, mechanism) not in known:
                known[request.options, mechanism] = request.options.error(mechanism)
            error = known[request.options, mechanism] / noise.sensitivity.largest_shift
            total += error * float(noise.weight)
        if counted:
            return total * charge
        return self.budget.cost_of(vectors) if self.charged is None else charge


def percent_text(more: float) -> str:
    """Return the relative increase of an error as a percentage, with few digits if it is huge."""
    times = 100 * max(0.0, more)
    return f"{times:.3f}" if times < 1e6 else f"{times:.3g}"


def _with_coarse_steps(noise: UnscaledNoise) -> UnscaledNoise:
    """Return the noise with shifts of at most `COARSE_STEPS` steps, so that similar columns merge.

    A noise with a declared accuracy, or with a length among its parameters, keeps its steps.
    """
    largest = noise.sensitivity.largest_shift
    lengths = {
        shape.name for shape in noise.kind.shape_parameters if shape.in_units
    } & noise.shape.keys()
    if largest <= COARSE_STEPS or noise.width is not None or lengths:
        return noise
    moves = tuple(
        Move(max(1, round(Fraction(move.shift * COARSE_STEPS, largest))), move.cells)
        for move in noise.sensitivity.moves
    )
    return replace(noise, sensitivity=replace(noise.sensitivity, moves=moves))
