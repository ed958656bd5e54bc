"""Find the least budget that reaches all targets, for `spend: least`.

`consistency.shares.targets.least_budget` finds the shares that meet all limits of a column with the
least budget, and the amount that the column needs. These shares do not depend on the amount, and
the needed amounts divide the budget among the columns. Only the epsilon or rho remains unknown.
Margins fall as it rises, so a bracketed secant search over plans finds the least amount. Each plan
is computed like any other plan, and the declared amount is the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.consistency.shares.targets import least_budget, least_mean
from dprelease.errors import DpReleaseError, QueryError
from dprelease.numerics.rounding import plain_text
from dprelease.planning.families.family_shares import (
    SharedColumn,
    is_settled,
    margins_of,
    share_problem_of,
    shared_columns,
    weights_of,
)
from dprelease.planning.kinds import Weights
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.step import Consistent
from dprelease.schema.load import Declaration
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.consistent import ConsistentSpec

CLOSE_ENOUGH = 0.01
"""The search ends when the largest squared ratio of a margin to its target is below 1 by at most
this number."""

BRACKET = 1.005
"""The search ends when the least known amount is within this factor of one that is too small."""

TRIES = 12

PlanAt = Callable[[Declaration, Weights], Plan]


@dataclass(frozen=True, slots=True)
class _TriedAmount:
    """A plan for one amount, and the largest squared ratio of a margin to its target."""

    amount: Fraction
    plan: Plan
    squared_ratio: float
    column: str
    margin: float


def plan_of_least_budget(declaration: Declaration, plan: Plan, plan_at: PlanAt) -> Plan:
    """Return the plan that reaches all targets with the least amount, to a part in a hundred.

    - `plan`: the plan with the declared weights, which spends the whole amount.
    - `plan_at`: function that makes the plan of a declaration, with weights of tables.

    Raises QueryError: DP-CONSIST-021 to 023.
    """
    check_limits(declaration, plan)
    columns = list(shared_columns(declaration, plan))
    weights = _weights_for_least_budget(columns)
    most = _amount_of(declaration.spec)

    def try_amount(amount: Fraction) -> _TriedAmount:
        """Return the target that misses its margin most, if this amount is spent."""
        trial_plan = plan_at(_with_amount(declaration, amount), weights)
        return max(_tried_targets(amount, trial_plan), key=lambda trial: trial.squared_ratio)

    first = try_amount(most)
    if first.squared_ratio > 1:
        raise _unreachable_targets_error(declaration, first)
    found = _search_amount(try_amount, first)
    kind = "rho" if declaration.spec.budget.rho is not None else "epsilon"
    description = (
        f"the {kind} {plain_text(found.amount)} is the least that reaches all targets, within 1 %; "
        f"the limit is {plain_text(most)}"
    )
    return replace(found.plan, shared=(description,))


def _search_amount(
    try_amount: Callable[[Fraction], _TriedAmount], first: _TriedAmount
) -> _TriedAmount:
    """Return the trial that reaches all targets with nearly the least amount.

    `first` reaches all targets with the declared amount.
    """
    best, last, too_small = first, first, Fraction(0)
    # A first guess: variances fall about with the square of epsilon.
    slope = -2.0
    for _ in range(TRIES):
        near = best.squared_ratio > 1 - CLOSE_ENOUGH or (
            too_small and best.amount / too_small < BRACKET
        )
        if near:
            break
        step = (math.log(1 - CLOSE_ENOUGH / 2) - math.log(last.squared_ratio)) / slope
        amount = _round_up_to_four_digits(
            last.amount * Fraction(math.exp(max(-30.0, min(step, 30.0))))
        )
        if not too_small < amount < best.amount:
            middle = best.amount / 2 if not too_small else (best.amount + too_small) / 2
            amount = _round_up_to_four_digits(middle)
        if not too_small < amount < best.amount:
            break
        try:
            trial = try_amount(amount)
        except DpReleaseError:  # the amount is too small: no noise can be certified
            too_small = amount
            continue
        moved = math.log(float(trial.amount / last.amount))
        slope = (
            min(-0.5, (math.log(trial.squared_ratio) - math.log(last.squared_ratio)) / moved)
            if moved
            else slope
        )
        last = trial
        if trial.squared_ratio <= 1:
            best = trial
        else:
            too_small = amount
    return best


def check_limits(declaration: Declaration, plan: Plan) -> None:
    """Raise QueryError DP-CONSIST-021 or 022 if the declared targets limit no error."""
    spec = declaration.spec
    targets = [
        (family.name, target)
        for family in plan.families
        if isinstance(family.step, Consistent)
        for target in family.step.spec.targets
        if target.moe is not None
    ]
    if targets and plan.budget.needs_pure_noise:
        place = declaration.place("queries", targets[0][0], "consistent", "targets")
        raise QueryError("DP-CONSIST-021", place=place)
    reason = next(_reasons_without_limit(spec, bool(targets)), None)
    if reason is not None:
        place = declaration.place("budget", "spend")
        raise QueryError("DP-CONSIST-022", place=place, reason=reason)


def _reasons_without_limit(spec: ReleaseSpec, has_targets: bool) -> Iterator[str]:
    """Yield the reasons why no least budget can be computed."""
    if not has_targets:
        yield "no target declares a margin"
    if spec.budget.epsilon is None and spec.budget.rho is None:
        yield "no `epsilon` or `rho` limits what may be spent"
    shares = [*spec.budget.tables.values(), *(query.share for query in spec.queries.values())]
    has_own_share = any(share.epsilon is not None or share.rho is not None for share in shares)
    columns = [c for query in spec.queries.values() for c in query.columns.values()]
    if has_own_share or any(map(is_settled, columns)):
        yield "a column has its own epsilon, rho or margin, which can't be reduced with the rest"


def _weights_for_least_budget(columns: Sequence[SharedColumn]) -> Weights:
    """Return weights with which all columns reach their targets at the same amount."""
    factors: dict[int, Fraction] = {}
    by_column: list[dict[tuple[str, str], Fraction]] = []
    for i, shared in enumerate(columns):
        problem = share_problem_of(shared, {}, include_wide=True)
        if problem.limits:
            factors[i], allocation = least_budget(problem.design, problem.weights, problem.limits)
        else:
            allocation = least_mean(problem.design, problem.weights)
        by_column.append(weights_of(shared, allocation))
    if not factors:  # no column has several tables
        return {}
    most = max(factors.values())
    weights: dict[tuple[str, str], Fraction] = {}
    for i, weights_of_column in enumerate(by_column):
        squared_ratio = factors.get(i, most) / most
        root = Fraction(max(1, math.isqrt(math.floor(squared_ratio * 4**20))), 2**20)
        weights |= {name: weight * root for name, weight in weights_of_column.items()}
    return weights


def _tried_targets(amount: Fraction, plan: Plan) -> Iterator[_TriedAmount]:
    """Yield each target of a plan with the ratio of its margin to the declared margin."""
    for agreed, spec in _consistent_columns(plan):
        for _, margin, moe in margins_of(agreed, spec):
            squared_ratio = float((Fraction(margin) / moe) ** 2) if margin else 0.0
            yield _TriedAmount(amount, plan, max(squared_ratio, 1e-300), agreed.name, margin)


def _consistent_columns(plan: Plan) -> Iterator[tuple[FamilyColumn, ConsistentSpec]]:
    for family in plan.families:
        if isinstance(family.step, Consistent):
            for agreed in consistent_columns(Shape.of(family.tables)):
                yield agreed, family.step.spec


def _amount_of(spec: ReleaseSpec) -> Fraction:
    """Return the epsilon or the rho of the declared budget."""
    amount = spec.budget.epsilon if spec.budget.rho is None else spec.budget.rho
    if amount is None:
        raise TypeError("a budget has an amount")
    return amount


def _with_amount(declaration: Declaration, amount: Fraction) -> Declaration:
    """Return the declaration with this amount as epsilon or rho of its budget."""
    budget = declaration.spec.budget
    name = "epsilon" if budget.rho is None else "rho"
    changed = budget.model_copy(update={name: amount})
    return replace(declaration, spec=declaration.spec.model_copy(update={"budget": changed}))


def _round_up_to_four_digits(amount: Fraction) -> Fraction:
    """Return an amount rounded up to four digits."""
    unit = Fraction(10) ** (math.floor(math.log10(float(amount))) - 3)
    return math.ceil(amount / unit) * unit


def _unreachable_targets_error(declaration: Declaration, first: _TriedAmount) -> QueryError:
    """Return the error of targets that need more than the declared budget."""
    budget = declaration.spec.budget
    kind, power = ("rho", 1.0) if budget.rho is not None else ("epsilon", 0.5)
    needed = float(first.amount) * first.squared_ratio**power
    return QueryError(
        "DP-CONSIST-023",
        place=declaration.place("budget"),
        needed=f"{kind} {needed:.3g}",
        amount=plain_text(first.amount),
        column=first.column,
        margin=f"{first.margin:.3g}",
    )
