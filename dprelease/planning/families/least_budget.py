"""Find the least budget that reaches all targets, for `spend: least`.

The shares that meet all limits with the least noise budget do so for every budget, and each
column's part follows from how much it takes (`consistency.shares.targets.least_budget`). One
unknown remains: the epsilon or rho. Margins fall as it rises, so it is found by a bracketed secant
on plans, each of them computed like any other. The declared amount remains the maximum.
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
    program_of,
    shared_columns,
    weights_of,
)
from dprelease.planning.kinds import Weights
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.family_columns import FamilyColumn, agreed_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.step import Consistent
from dprelease.schema.load import Declaration
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.consistent import ConsistentSpec

NEAR = 0.01
"""The search ends when a squared margin is below its target by at most this fraction."""

BRACKET = 1.005
"""Amounts within this factor are not distinguished."""

TRIES = 12

PlanAt = Callable[[Declaration, Weights], Plan]


@dataclass(frozen=True, slots=True)
class _TriedAmount:
    """A plan for one amount, and the largest squared ratio of a margin to its target."""

    amount: Fraction
    plan: Plan
    part: float
    column: str
    margin: float


def least(declaration: Declaration, plan: Plan, plan_at: PlanAt) -> Plan:
    """Return the plan that reaches all targets with the least amount, to a part in a hundred.

    Parameters
    ----------
    plan
        The plan with noise as columns are declared, which may spend everything.
    plan_at
        Makes the plan of a declaration, with weights of tables.

    Raises
    ------
    QueryError
        DP-CONSIST-021 to 023.
    """
    refuse_endless(declaration, plan)
    columns = list(shared_columns(declaration, plan))
    weights = _least_weights(columns)
    most = _amount(declaration.spec)

    def try_amount(amount: Fraction) -> _TriedAmount:
        trial_plan = plan_at(_with_amount(declaration, amount), weights)
        return max(_target_trials(amount, trial_plan), key=lambda one: one.part)

    first = try_amount(most)
    if first.part > 1:
        raise _unreachable(declaration, first)
    found = _search_amount(try_amount, first)
    kind = "rho" if declaration.spec.budget.rho is not None else "epsilon"
    description = (
        f"the {kind} {plain_text(found.amount)} is the least that reaches all targets, within 1 %; "
        f"the limit is {plain_text(most)}"
    )
    return replace(found.plan, shared=(description,))


def _search_amount(tried: Callable[[Fraction], _TriedAmount], first: _TriedAmount) -> _TriedAmount:
    """Return the plan that reaches all targets with nearly the least amount; the first does."""
    best, last, below = first, first, Fraction(0)
    slope = -2.0
    for _ in range(TRIES):
        near = best.part > 1 - NEAR or (below and best.amount / below < BRACKET)
        if near:
            break
        step = (math.log(1 - NEAR / 2) - math.log(last.part)) / slope
        amount = _round_up(last.amount * Fraction(math.exp(max(-30.0, min(step, 30.0)))))
        if not below < amount < best.amount:
            middle = best.amount / 2 if not below else (best.amount + below) / 2
            amount = _round_up(middle)
        if not below < amount < best.amount:
            break
        try:
            now = tried(amount)
        except DpReleaseError:  # too small: no noise can be certified
            below = amount
            continue
        moved = math.log(float(now.amount / last.amount))
        slope = min(-0.5, (math.log(now.part) - math.log(last.part)) / moved) if moved else slope
        last = now
        if now.part <= 1:
            best = now
        else:
            below = amount
    return best


def refuse_endless(declaration: Declaration, plan: Plan) -> None:
    """Raise QueryError DP-CONSIST-021 or 022 if no declaration limits the error."""
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
    reason = next(_reasons(spec, bool(targets)), None)
    if reason is not None:
        place = declaration.place("budget", "spend")
        raise QueryError("DP-CONSIST-022", place=place, reason=reason)


def _reasons(spec: ReleaseSpec, has_targets: bool) -> Iterator[str]:
    if not has_targets:
        yield "no target declares a margin"
    if spec.budget.epsilon is None and spec.budget.rho is None:
        yield "no `epsilon` or `rho` limits what may be spent"
    shares = [*spec.budget.tables.values(), *(query.share for query in spec.queries.values())]
    own = any(share.epsilon is not None or share.rho is not None for share in shares)
    if own or any(is_settled(c) for query in spec.queries.values() for c in query.columns.values()):
        yield "a column has its own epsilon, rho or margin, which can't be reduced with the rest"


def _least_weights(columns: Sequence[SharedColumn]) -> Weights:
    """Return weights with which every column's targets are reached by the same budget."""
    factors: dict[int, Fraction] = {}
    by_column: list[dict[tuple[str, str], Fraction]] = []
    for i, shared in enumerate(columns):
        program = program_of(shared, {}, every=True)
        if program.limits:
            factors[i], allocation = least_budget(program.design, program.weights, program.limits)
        else:
            allocation = least_mean(program.design, program.weights)
        by_column.append(weights_of(shared, allocation))
    if not factors:  # no column has several tables
        return {}
    most = max(factors.values())
    weights: dict[tuple[str, str], Fraction] = {}
    for i, own in enumerate(by_column):
        part = factors.get(i, most) / most
        root = Fraction(max(1, math.isqrt(math.floor(part * 4**20))), 2**20)
        weights |= {name: weight * root for name, weight in own.items()}
    return weights


def _target_trials(amount: Fraction, plan: Plan) -> Iterator[_TriedAmount]:
    for agreed, spec in _consistent_columns(plan):
        for _, margin, moe in margins_of(agreed, spec):
            part = float((Fraction(margin) / moe) ** 2) if margin else 0.0
            yield _TriedAmount(amount, plan, max(part, 1e-300), agreed.name, margin)


def _consistent_columns(plan: Plan) -> Iterator[tuple[FamilyColumn, ConsistentSpec]]:
    for family in plan.families:
        if isinstance(family.step, Consistent):
            for agreed in agreed_columns(Shape.of(family.tables)):
                yield agreed, family.step.spec


def _amount(spec: ReleaseSpec) -> Fraction:
    amount = spec.budget.epsilon if spec.budget.rho is None else spec.budget.rho
    if amount is None:
        raise TypeError("a budget has an amount")
    return amount


def _with_amount(declaration: Declaration, amount: Fraction) -> Declaration:
    budget = declaration.spec.budget
    name = "epsilon" if budget.rho is None else "rho"
    changed = budget.model_copy(update={name: amount})
    return replace(declaration, spec=declaration.spec.model_copy(update={"budget": changed}))


def _round_up(amount: Fraction) -> Fraction:
    """Return the number rounded up to four digits."""
    unit = Fraction(10) ** (math.floor(math.log10(float(amount))) - 3)
    return math.ceil(amount / unit) * unit


def _unreachable(declaration: Declaration, first: _TriedAmount) -> QueryError:
    budget = declaration.spec.budget
    kind, power = ("rho", 1.0) if budget.rho is not None else ("epsilon", 0.5)
    needed = float(first.amount) * first.part**power
    return QueryError(
        "DP-CONSIST-023",
        place=declaration.place("budget"),
        needed=f"{kind} {needed:.3g}",
        amount=plain_text(first.amount),
        column=first.column,
        margin=f"{first.margin:.3g}",
    )
