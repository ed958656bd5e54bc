"""The candidates of `auto`, or of a declared family without a complete shape, and their errors.

A candidate is a family with a shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.budget_shares import Share, spend_budget
from dprelease.planning.calibration import Factors, Shape, UnscaledNoise, make_accounting_input
from dprelease.planning.guarantees import LedgerCost
from dprelease.planning.noise_requests import AutoOptions, NoiseRequest
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity

FEW_CELLS = 8
"""Maximum number of cells for which mechanisms that need a delta in each cell can be the best."""

LEAST_SINGLE_DELTA = Fraction(1, 10**10)
"""Least delta of a single cell: the accountant's allowance for rounding errors is then well below
1/1024 of the delta."""

SOLVED_SHIFT = 512
"""Maximum shift in steps of mechanisms that linear programs compute."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A family with a shape."""

    family: str
    shape: tuple[tuple[str, str | float], ...] = ()

    @classmethod
    def of(cls, family: str, shape: Shape) -> Candidate:
        """Return the candidate of a family with a shape, which is a mapping."""
        return cls(family, tuple(sorted(shape.items())))

    def with_parameter(self, name: str, value: float) -> Candidate:
        """Return the same candidate with another value of one shape parameter."""
        return Candidate.of(self.family, {**dict(self.shape), name: value})

    def numbers(self) -> list[float]:
        """Return the numerical values in the shape, by which candidates are sorted."""
        return [float(value) for _, value in self.shape if _is_number(value)]

    @property
    def rounded_variant(self) -> Candidate | None:
        """Return the candidate that rounds a continuous distribution instead; None without one."""
        for name in registry.names():
            if registry.get(name).auto_rule.integer_variant == self.family:
                return Candidate(name, self.shape)
        return None


Choice = tuple[Candidate, ...]
"""A candidate for each group of columns."""


def with_candidates(choice: Choice, replacements: Mapping[int, Candidate]) -> Choice:
    """Return the choice with other candidates for some groups, by the index of the group."""
    return tuple(replacements.get(i, candidate) for i, candidate in enumerate(choice))


@dataclass
class ColumnGroup:
    """Columns that differ so little that they get the same candidate."""

    columns: list[int]
    families: tuple[str, ...]
    request: NoiseRequest

    @property
    def is_auto(self) -> bool:
        """Return whether the plan selects the family of these columns, not only the shape."""
        return self.request.is_auto


def candidates_of_family(family: str, request: NoiseRequest, delta: Fraction) -> list[Candidate]:
    """Return the candidates of a family for a request, good candidates first.

    `delta`: the delta of one cell.
    """
    kind = registry.randomizer_class(family)
    declared = dict(request.shape)
    names = {shape.name for shape in kind.shape_parameters}
    if "delta" in names and "delta" not in declared and delta:
        declared["delta"] = repr(float(delta))
    shapes = ({**searched, **declared} for searched in kind.searched_shapes)
    return list(dict.fromkeys(Candidate.of(family, shape) for shape in shapes))


def varying_parameter(candidates: Sequence[Candidate]) -> str | None:
    """Return the name of the only parameter in which the candidates differ; otherwise None."""
    # A parabola through the errors needs three points.
    if len(candidates) < 3:
        return None
    differing = [
        name
        for name, value in candidates[0].shape
        if len({dict(candidate.shape)[name] for candidate in candidates}) > 1
    ]
    return differing[0] if len(differing) == 1 else None


def families_of(
    request: NoiseRequest,
    budget: Budget,
    cells: int,
    *,
    charged: LedgerCost | None = None,
    unpromising: bool = False,
) -> tuple[str, ...]:
    """Return the families that a request, a budget and the ledger's measure admit.

    `cells` is the number of cells that one privacy unit moves in all columns without a declared
    family. `unpromising` adds families that are hardly ever the best.
    """
    if not request.is_auto:
        return (request.measurement.mechanism.name,)
    kinds = [registry.get(name) for name in registry.names()]
    kinds = [kind for kind in kinds if request.may_use(kind)]
    admissible = [kind for kind in kinds if _is_admissible(request.options, kind, budget, charged)]
    return tuple(
        kind.name
        for kind in admissible
        if request.options.allowed
        or unpromising
        or _is_promising(request.options, kind, cells, pure=charged is None and not budget.delta)
    )


def _is_admissible(
    options: AutoOptions, kind: type[Randomizer], budget: Budget, charged: LedgerCost | None
) -> bool:
    """Return whether a family meets the constraints and has a finite cost."""
    pure = budget.needs_pure_noise or charged is LedgerCost.EPSILON
    concentrated = budget.needs_concentration or charged is LedgerCost.RHO
    # Noise with a delta has no finite pure epsilon.
    if not options.admits(kind) or (pure and not kind.pure):
        return False
    return not (concentrated and kind.has_bounded_noise)


def _is_promising(options: AutoOptions, kind: type[Randomizer], cells: int, *, pure: bool) -> bool:
    """Return whether a kind of noise can be best for so many cells, so that it is tried first."""
    if kind.has_bounded_noise and not (cells <= FEW_CELLS or "bounded" in options.constraints):
        return False
    return not kind.auto_rule.last_resort and not (pure and kind.auto_rule.only_with_delta)


def group_key(request: NoiseRequest) -> object:
    """Return a key that is equal for columns for which the same candidate is good."""
    sensitivity = request.measurement.sensitivity
    largest = sensitivity.largest_shift
    moves = tuple((move.cells, move.shift == largest) for move in sensitivity.moves)
    declared = tuple(sorted(request.measurement.mechanism.shape.items()))
    accurate = request.measurement.wanted is not None
    name = request.measurement.mechanism.name
    takes = tuple(n for n in registry.names() if request.may_use(registry.get(n)))
    # The key does not contain the weight, which only scales the noise.
    return name, declared, takes, sensitivity.slots, moves, _step_class(largest), accurate


def _step_class(largest: int) -> int:
    """Return a class of shifts with similar candidates: 1, 2, up to `SOLVED_SHIFT`, and larger."""
    if largest <= 2:
        return largest
    return 3 if largest <= SOLVED_SHIFT else 4


def cells_of(sensitivity: Sensitivity) -> int:
    """Return the maximum number of cells that one privacy unit moves."""
    return sensitivity.slots * max(move.cells for move in sensitivity.moves)


def delta_of_each_cell(requests: Sequence[NoiseRequest], budget: Budget) -> Fraction:
    """Return the delta of one cell for mechanisms that need one: equal shares of the budget."""
    cells = sum(
        cells_of(request.measurement.sensitivity)
        for request in requests
        if _may_need_delta(request, budget)
    )
    if budget.needs_concentration and cells:
        return budget.delta / (2 * cells)  # the conversion of rho to an epsilon needs the rest
    return delta_of_cell(budget.delta, cells) if cells else Fraction(0)


def _may_need_delta(request: NoiseRequest, budget: Budget) -> bool:
    """Return whether the mechanism of a column needs a delta, or may be one that needs a delta."""
    if request.is_auto:
        return not budget.needs_concentration  # columns with such noise have no rho
    kind = registry.randomizer_class(request.measurement.mechanism.name)
    return any(shape.name == "delta" for shape in kind.shape_parameters)


def delta_of_cell(delta: Fraction, cells: int) -> Fraction:
    """Return the delta of one cell's mechanism; the composition of the cells needs the rest."""
    # One cell composes with nothing, so it can have almost all of delta.
    if cells == 1 and delta >= LEAST_SINGLE_DELTA:
        return delta * Fraction(1023, 1024)
    return delta / (2 * cells)


def _is_number(value: object) -> bool:
    """Return whether a value can be read as a float."""
    try:
        float(str(value))
    except ValueError:
        return False
    return True


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
            # A scale that exists for coarse steps may not exist for the real ones.
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
            # A declared accuracy fixes this error, so it is equal for all candidates.
            if noise.width is not None:
                continue
            counted = True
            if (request.options, mechanism) not in known:
                known[request.options, mechanism] = request.options.error(mechanism)
            error = known[request.options, mechanism] / noise.sensitivity.largest_shift
            total += error * float(noise.weight)
        if counted:
            return total * charge
        # Where all errors are declared, the cheapest noise is the best.
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
    # Lengths and accuracies are in steps, so coarser steps would change what they mean.
    if largest <= COARSE_STEPS or noise.width is not None or lengths:
        return noise
    moves = tuple(
        Move(max(1, round(Fraction(move.shift * COARSE_STEPS, largest))), move.cells)
        for move in noise.sensitivity.moves
    )
    return replace(noise, sensitivity=replace(noise.sensitivity, moves=moves))
