"""Divide a column's budget among consistent tables, optimally for the declared targets.

Without `targets`, each table at each level counts equally: the sum of their mean variances after
least squares is minimized. A target changes a table's weight, or limits its margin of error.

The cost of a first plan with equal noise determines the cost of each table's variance: for noise
whose cost is its squared sensitivity over its variance, all shares with the same sum cost the same.
The plan with these shares is then computed like any other, so only the quality of the shares
depends on this assumption. Under a pure guarantee costs add up differently, and weights stay as
declared.

The search uses floats, and its last bits may differ between machines. The noise distributions of a
release record what it spent on which table, and a verifier takes it from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.consistency.algebra import Table
from dprelease.consistency.expected import expected_errors
from dprelease.consistency.shares.design import Design, Placed
from dprelease.consistency.shares.targets import (
    Allocation,
    UnreachableTargetsError,
    least_mean,
    margin_limit,
)
from dprelease.errors import DpReleaseError, QueryError, raise_all
from dprelease.planning.families.family_plan import first_query
from dprelease.planning.kinds import Weights
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.aims import aim_of
from dprelease.postprocess.consistent.family_columns import FamilyColumn, agreed_columns
from dprelease.postprocess.consistent.family_shape import PlacedTable as Tabled
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.families import Placer
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.consistent import ConsistentSpec, TargetSpec

"""By table and measurement: the factor of the declared weight."""

LEAST = Fraction(1, 1024)
"""Total share of tables that are hardly worth measuring: all declared ones are measured."""

CLOSER = 1e-3
"""Fraction by which margins are aimed below the target, to allow for steps and inexact search."""

LEAST_MARGIN = 2.0**-60
"""In steps: narrower ones are equally far from any noise, and their squares underflow."""

LARGEST_FACTOR = Fraction(10) ** 300
"""Multiple of the budget: larger requirements are reported as this."""


@dataclass(frozen=True, slots=True)
class SharedColumn:
    """A column of a family whose tables have no amounts of their own."""

    family: str
    agreed: FamilyColumn
    spec: ConsistentSpec

    @property
    def targets(self) -> dict[Placed, tuple[int, TargetSpec]]:
        """Return the targets by level and table, with their index in the list."""
        return _targets(self.agreed, self.spec)


def _targets(agreed: FamilyColumn, spec: ConsistentSpec) -> dict[Placed, tuple[int, TargetSpec]]:
    aims = (
        (aim_of(agreed.shape, target), i, target)
        for i, target in enumerate(spec.targets)
        if target.column in (None, agreed.name)
    )
    return {aim: (i, target) for aim, i, target in aims if aim is not None}


def _noisy_tables(agreed: FamilyColumn) -> list[Tabled]:
    """Return the tables that share the noise: all but those that are published exactly."""
    return [one for one in agreed.shape.placed if not agreed.is_exact(one)]


TRIES = 4
"""Plans made to meet margins: a margin's number of standard errors depends slightly on the
noise."""


def optimize_shares(declaration: Declaration, plan: Plan, again: Callable[[Weights], Plan]) -> Plan:
    """Return the plan of a release with the best shares for its consistent tables.

    Parameters
    ----------
    plan
        The plan with noise as columns are declared.
    again
        Makes the plan again, with other weights.

    Raises
    ------
    QueryError, Findings
        DP-CONSIST-020 for a margin that no shares reach, DP-CONSIST-021 where targets can't share a
        budget.
    """
    weights: Weights = {}
    for _ in range(TRIES):
        weights, notes = best_weights(declaration, plan, weights)
        if not weights:
            break
        plan = replace(again(weights), shared=notes)
        if not check_targets(declaration, plan):
            return plan
    raise_all(check_targets(declaration, plan))
    return plan


def best_weights(
    declaration: Declaration, plan: Plan, before: Weights
) -> tuple[Weights, tuple[str, ...]]:
    """Return the factors of the weights of consistent tables; empty if they stay.

    Also returns, in words, how close to the optimum the shares of each column are certified to be.

    `before`: the factors of the plan, 1 where there is none.

    Raises
    ------
    QueryError, Findings
        DP-CONSIST-020 for targets that no shares reach.
    """
    weights: dict[tuple[str, str], Fraction] = {}
    findings: list[DpReleaseError] = []
    notes = []
    for shared in shared_columns(declaration, plan):
        try:
            share_problem = program_of(shared, before)
            allocation = least_mean(
                share_problem.design, share_problem.weights, share_problem.limits
            )
        except UnreachableTargetsError as problem:
            findings.append(_unreachable(declaration, shared, problem.nearest))
            continue
        weights |= weights_of(shared, allocation)
        notes.append(_certificate(shared, allocation))
    raise_all(findings)
    return weights, tuple(notes)


def _certificate(shared: SharedColumn, allocation: Allocation) -> str:
    """Return how much smaller the mean variance could be, from a lower bound, rounded up."""
    gap = (1 + allocation.gap) / float(1 - LEAST) - 1
    return (
        f"the mean variance of '{shared.family}.{shared.agreed.name}' over its tables, "
        f"{'weighted as `targets` say' if shared.spec.targets else 'each alike'}, is at most "
        f"{100 * gap:.2g} % above the least that any shares have"
    )


def check_targets(declaration: Declaration, plan: Plan) -> list[DpReleaseError]:
    """Return an error for each target that a plan misses; opens no data."""
    findings: list[DpReleaseError] = []
    for family in plan.families:
        if not isinstance(family.step, Consistent) or not family.step.spec.targets:
            continue
        shape, spec = Shape.of(family.tables), family.step.spec
        place = _placer(declaration, family.name)
        if plan.budget.needs_pure_noise:
            findings.append(QueryError("DP-CONSIST-021", place=place("consistent", "targets")))
            continue
        for agreed in agreed_columns(shape):
            findings += _too_wide(agreed, spec, place)
    return findings


def _placer(declaration: Declaration, family: str) -> Placer:
    query = first_query(declaration.spec, family)
    return lambda *keys: declaration.place("queries", query, *keys)


def shared_columns(declaration: Declaration, plan: Plan) -> Iterator[SharedColumn]:
    """Yield the columns whose tables share an amount that weights alone divide."""
    if plan.budget.needs_pure_noise:
        return
    for family in plan.families:
        if not isinstance(family.step, Consistent) or len(family.tables) < 2:
            continue
        spec = declaration.spec.queries[first_query(declaration.spec, family.name)]
        for agreed in agreed_columns(Shape.of(family.tables)):
            settled = is_settled(spec.columns[agreed.measurement.asked_by])
            if not settled and len(_noisy_tables(agreed)) > 1:
                yield SharedColumn(family.name, agreed, family.step.spec)


def is_settled(column: ColumnSpec) -> bool:
    """Return whether a column declares its own cost."""
    return any(part is not None for part in (column.epsilon, column.rho, column.margin_wanted))


@dataclass(frozen=True, slots=True)
class Program:
    """The optimization problem: the design, weights of mean variances, limits of variances."""

    design: Design
    weights: dict[Placed, float]
    limits: dict[Placed, float]


def program_of(shared: SharedColumn, before: Weights, *, every: bool = False) -> Program:
    """Return the problem of a column's shares; `before`: the weights of the current plan.

    `every`: include limits that hold anyway by the least share of a table under this budget.
    """
    agreed, shape = shared.agreed, shared.agreed.shape
    squares = {
        one.name: float(before.get((one.name, agreed.measurement.name), 1)) ** 2
        for one in _noisy_tables(agreed)
    }
    costs: list[dict[Table, float]] = [{} for _ in shape.levels]
    exact: list[list[Table]] = [[] for _ in shape.levels]
    for one in shape.placed:
        if agreed.is_exact(one):
            exact[one.level].append(one.attributes)
            continue
        mechanism = dict(agreed.laws[one.level])[one.attributes]
        share = squares[one.name] / math.fsum(squares.values())
        costs[one.level][one.attributes] = float(mechanism.variance) * share
    weights = {(one.level, one.attributes): 1.0 for one in shape.placed}
    limits = {}
    for place, (_, target) in shared.targets.items():
        if target.weight is not None:
            weights[place] = float(target.weight)
        level, table = place
        if target.moe is not None and table in costs[level]:
            limit = _limit(agreed, target.moe)
            if every or limit * float(_floor(agreed)) < costs[level][table]:
                limits[place] = limit  # wider limits hold by the least share of each table
    return Program(Design(shape.sizes, shape.tree, costs, exact), weights, limits)


def _limit(agreed: FamilyColumn, moe: Fraction) -> float:
    """Return the variance of a cell whose margin is a little below the target."""
    return margin_limit(float(_margin(agreed, moe)) * (1 - CLOSER), agreed.quantile)


def _margin(agreed: FamilyColumn, moe: Fraction) -> Fraction:
    """Return a margin in steps, no narrower than floats can square."""
    return max(moe / agreed.step, Fraction(LEAST_MARGIN))


def _floor(agreed: FamilyColumn) -> Fraction:
    """Return the share of a table that is hardly worth measuring."""
    return LEAST / len(_noisy_tables(agreed))


def weights_of(shared: SharedColumn, allocation: Allocation) -> dict[tuple[str, str], Fraction]:
    """Return the factors that give each table its share; for equal shares they are 1."""
    placed = _noisy_tables(shared.agreed)
    number, floor = len(placed), _floor(shared.agreed)
    weights = {}
    for one in placed:
        share = allocation.shares[one.level].get(one.attributes, Fraction(0))
        shares = floor + share * (1 - LEAST)
        root = math.isqrt(
            math.floor(shares * number * 4**20)
        )  # the width of the noise is 1 / weight
        name = one.name, shared.agreed.measurement.name
        weights[name] = Fraction(max(root, 1), 2**20)
    return weights


def _too_wide(
    agreed: FamilyColumn, spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    for i, margin, moe in margins_of(agreed, spec):
        if not margin <= moe:
            yield _wide(place, i, agreed.name, margin, (Fraction(margin) / moe) ** 2)


def margins_of(agreed: FamilyColumn, spec: ConsistentSpec) -> Iterator[tuple[int, float, Fraction]]:
    """Yield the targets of a column that limit margins: index, planned margin, target."""
    limited = {
        aim: (i, target.moe)
        for aim, (i, target) in _targets(agreed, spec).items()
        if target.moe is not None
    }
    levels = range(len(agreed.shape.levels))
    limited_tables = [[table for at, table in limited if at == level] for level in levels]
    for row in expected_errors(agreed.variances, limited_tables, agreed.quantile):
        i, moe = limited[row.level, row.table]
        yield i, row.margin.greatest * float(agreed.step), moe


def _unreachable(
    declaration: Declaration, shared: SharedColumn, nearest: Allocation
) -> DpReleaseError:
    """Return the error for limits that no shares meet together: the first of the widest."""
    worst = max(nearest.parts, key=nearest.parts.__getitem__)
    i, target = shared.targets[worst]
    placer = _placer(declaration, shared.family)
    agreed, moe = shared.agreed, target.moe or Fraction(0)
    aimed_at = _margin(agreed, moe) * agreed.step
    margin = float(aimed_at) * math.sqrt(nearest.parts[worst])
    return _wide(placer, i, agreed.name, margin, nearest.needs * (aimed_at / moe) ** 2)


def _wide(place: Placer, i: int, column: str, margin: float, factor: Fraction) -> DpReleaseError:
    needed = float(min(factor, LARGEST_FACTOR))
    return QueryError(
        "DP-CONSIST-020",
        place=place("consistent", "targets", i, "moe"),
        column=column,
        margin=f"{margin:.3g}",
        factor=f"{needed:.3g}",
        root=f"{math.sqrt(needed):.3g}",
    )
