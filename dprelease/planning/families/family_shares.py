"""Divide a column's budget among consistent tables, optimally for the declared targets.

Without `targets`, each table at each level counts equally: the search minimizes the sum of the mean
variances of the tables after least squares. A target changes the weight of a table, or limits its
margin of error.

A first plan with equal noise determines how much the variance of each table costs. The search
assumes that the cost of noise is its squared sensitivity over its variance, so that all shares with
the same sum have the same cost. The plan with these shares is then computed like any other plan, so
only the quality of the shares depends on this assumption. Under a pure guarantee costs add up
differently, and weights stay as declared.

Measured tables of groupings have shares by a simple rule.

The search uses floats, and its last bits may differ between machines. The manifest of a release
records the noise of each table, and a verifier reads the shares from there.
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
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, aim_of
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.families import Placer
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.consistent import ConsistentSpec, TargetSpec

LEAST_TOTAL_SHARE = Fraction(1, 1024)
"""Part of the budget that all tables divide equally, so that each declared table gets noise of a
finite scale."""

MARGIN_RESERVE = 1e-3
"""Fraction by which the search aims below the target of a margin, because margins are whole steps
and the search is inexact."""

LEAST_MARGIN = 2.0**-60
"""Least margin in steps for the search: no noise comes near it, and squares of narrower margins
underflow."""

LARGEST_FACTOR = Fraction(10) ** 300
"""Largest multiple of the budget that an error reports as needed."""


@dataclass(frozen=True, slots=True)
class SharedColumn:
    """A column of consistent tables, whose tables divide one amount by weights."""

    family: str
    agreed: FamilyColumn
    spec: ConsistentSpec

    @property
    def targets(self) -> dict[Placed, tuple[int, TargetSpec]]:
        """Return the targets by level and table, each with its index in the declared list."""
        return _targets(self.agreed, self.spec)


def _targets(agreed: FamilyColumn, spec: ConsistentSpec) -> dict[Placed, tuple[int, TargetSpec]]:
    """Return the declared targets of a column, with their index, by level and table."""
    targets_with_tables = (
        (aim_of(agreed.shape, target), i, target)
        for i, target in enumerate(spec.targets)
        if target.column in (None, agreed.name)
    )
    return {
        level_and_table: (i, target)
        for level_and_table, i, target in targets_with_tables
        if level_and_table is not None
    }


def _noisy_tables(agreed: FamilyColumn) -> list[PlacedTable]:
    """Return the tables that divide the budget optimally: those that are not published exactly.

    Tables of groupings are not among them (`_weights_of_groupings`).
    """
    return [table for table in agreed.shape.placed if not agreed.is_exact(table)]


TRIES = 4
"""Maximum number of plans that are made to meet the margins: the ratio of a margin to its standard
error depends slightly on the noise."""


def optimize_shares(
    declaration: Declaration, plan: Plan, make_plan_again: Callable[[Weights], Plan]
) -> Plan:
    """Return the plan of a release with the best shares for its consistent tables.

    - `plan`: the plan with the declared weights.
    - `make_plan_again`: function that makes the plan with other weights.

    Raises QueryError or Findings: DP-CONSIST-020 for a margin that no shares reach, DP-CONSIST-021
    where targets can't share a budget.
    """
    weights: Weights = {}
    for _ in range(TRIES):
        weights, notes = best_weights(declaration, plan, weights)
        if not weights:
            break
        plan = replace(make_plan_again(weights), shared=notes)
        # The search reaches margins only nearly, so the plan itself is checked.
        if not check_targets(declaration, plan):
            return plan
    raise_all(check_targets(declaration, plan))
    return plan


def best_weights(
    declaration: Declaration, plan: Plan, current_weights: Weights
) -> tuple[Weights, tuple[str, ...]]:
    """Return factors for the weights of consistent tables, and texts on how good the shares are.

    The factors are empty if all weights stay as declared. For each column, a text says how close
    its shares are proven to be to the optimum. `current_weights` has the factors of the plan; a
    missing factor is 1.

    Raises QueryError or Findings: DP-CONSIST-020 for targets that no shares reach.
    """
    weights: dict[tuple[str, str], Fraction] = {}
    findings: list[DpReleaseError] = []
    notes = []
    for shared in shared_columns(declaration, plan):
        try:
            share_problem = share_problem_of(shared, current_weights)
            allocation = least_mean(
                share_problem.design, share_problem.weights, share_problem.limits
            )
        except UnreachableTargetsError as problem:
            findings.append(_unreachable_target_error(declaration, shared, problem.nearest))
            continue
        weights |= weights_of(shared, allocation)
        notes.append(_optimality_text(shared, allocation))
    raise_all(findings)
    return weights, tuple(notes)


def _optimality_text(shared: SharedColumn, allocation: Allocation) -> str:
    """Return a text on how far the mean variance is above a proven lower bound, rounded up."""
    # The bound is for shares of the whole budget, of which the least shares take a part.
    gap = (1 + allocation.gap) / float(1 - LEAST_TOTAL_SHARE) - 1
    return (
        f"the mean variance of '{shared.family}.{shared.agreed.name}' over its tables, "
        f"{'weighted as `targets` say' if shared.spec.targets else 'each alike'}, is at most "
        f"{100 * gap:.2g} % above the least that any shares have"
        f"{', without the tables of groupings' if shared.agreed.shape.grouping_tables else ''}"
    )


def check_targets(declaration: Declaration, plan: Plan) -> list[DpReleaseError]:
    """Return an error for each target that a plan does not reach, without opening data."""
    findings: list[DpReleaseError] = []
    for family in plan.families:
        if not isinstance(family.step, Consistent) or not family.step.spec.targets:
            continue
        shape, spec = Shape.of(family.tables), family.step.spec
        place = _places_in_query(declaration, family.name)
        if plan.budget.needs_pure_noise:
            findings.append(QueryError("DP-CONSIST-021", place=place("consistent", "targets")))
            continue
        for agreed in consistent_columns(shape):
            findings += _missed_target_errors(agreed, spec, place)
    return findings


def _places_in_query(declaration: Declaration, family: str) -> Placer:
    """Return a function that returns the position of keys below the first query of a family."""
    query = first_query(declaration.spec, family)
    return lambda *keys: declaration.place("queries", query, *keys)


def shared_columns(declaration: Declaration, plan: Plan) -> Iterator[SharedColumn]:
    """Yield the columns of consistent tables whose tables divide an amount by weights alone."""
    if plan.budget.needs_pure_noise:
        return
    for family in plan.families:
        if not isinstance(family.step, Consistent) or len(family.tables) < 2:
            continue
        spec = declaration.spec.queries[first_query(declaration.spec, family.name)]
        for agreed in consistent_columns(Shape.of(family.tables)):
            settled = is_settled(spec.columns[agreed.measurement.charged_column])
            if not settled and len(_noisy_tables(agreed)) > 1:
                yield SharedColumn(family.name, agreed, family.step.spec)


def is_settled(column: ColumnSpec) -> bool:
    """Return whether a column declares an epsilon, a rho or a margin of error."""
    return any(part is not None for part in (column.epsilon, column.rho, column.margin_wanted))


@dataclass(frozen=True, slots=True)
class ShareProblem:
    """The optimization problem: the design, the weights of mean variances, limits of variances."""

    design: Design
    weights: dict[Placed, float]
    limits: dict[Placed, float]


def share_problem_of(
    shared: SharedColumn, current_weights: Weights, *, include_wide: bool = False
) -> ShareProblem:
    """Return the optimization problem for the shares of a column.

    `current_weights` are the weights of the current plan. `include_wide` adds limits that the least
    share of each table already meets under this budget.
    """
    agreed, shape = shared.agreed, shared.agreed.shape
    squares = {
        table.name: float(current_weights.get((table.name, agreed.measurement.name), 1)) ** 2
        for table in _noisy_tables(agreed)
    }
    costs: list[dict[Table, float]] = [{} for _ in shape.levels]
    exact: list[list[Table]] = [[] for _ in shape.levels]
    for table in shape.placed:
        if agreed.is_exact(table):
            exact[table.level].append(table.attributes)
            continue
        mechanism = dict(agreed.noise_moments[table.level])[table.attributes]
        # The variance if this table alone had the whole budget: variances are inverse to shares.
        share = squares[table.name] / math.fsum(squares.values())
        costs[table.level][table.attributes] = float(mechanism.variance) * share
    weights = {(table.level, table.attributes): 1.0 for table in shape.placed}
    limits = {}
    for place, (_, target) in shared.targets.items():
        # Groupings have their own rule, without limits (`_weights_of_groupings`).
        if place[0] >= len(shape.levels):
            continue  # a grouping
        if target.weight is not None:
            weights[place] = float(target.weight)
        level, attributes = place
        if target.moe is not None and attributes in costs[level]:
            limit = _variance_limit(agreed, target.moe)
            if include_wide or limit * float(_least_share(agreed)) < costs[level][attributes]:
                limits[place] = limit  # wider limits hold by the least share of each table
    return ShareProblem(Design(shape.sizes, shape.tree, costs, exact), weights, limits)


def _variance_limit(agreed: FamilyColumn, moe: Fraction) -> float:
    """Return the variance of a cell whose margin of error is a little below the target."""
    return margin_limit(
        float(_margin_in_steps(agreed, moe)) * (1 - MARGIN_RESERVE), agreed.quantile
    )


def _margin_in_steps(agreed: FamilyColumn, moe: Fraction) -> Fraction:
    """Return a margin in steps, or the least margin whose square is an exact float."""
    return max(moe / agreed.step, Fraction(LEAST_MARGIN))


def _least_share(agreed: FamilyColumn) -> Fraction:
    """Return the share that each table gets at least."""
    return LEAST_TOTAL_SHARE / len(_noisy_tables(agreed))


def weights_of(shared: SharedColumn, allocation: Allocation) -> dict[tuple[str, str], Fraction]:
    """Return the factors of weights that give each table its share; 1 for equal shares."""
    placed = _noisy_tables(shared.agreed)
    number, floor = len(placed), _least_share(shared.agreed)
    weights = {}
    for table in placed:
        share = allocation.shares[table.level].get(table.attributes, Fraction(0))
        # A share of 0 would need noise of infinite scale.
        shares = floor + share * (1 - LEAST_TOTAL_SHARE)
        numerator = math.isqrt(
            math.floor(shares * number * 4**20)
        )  # the width of the noise is 1 / weight
        name = table.name, shared.agreed.measurement.name
        weights[name] = Fraction(max(numerator, 1), 2**20)
    return weights | _weights_of_groupings(shared)


def _weights_of_groupings(shared: SharedColumn) -> dict[tuple[str, str], Fraction]:
    """Return the factors of the weights of measured tables of groupings.

    The search for shares leaves them out, because its variances are those of a tree. Each of them
    has the mean share of all other tables, times the square root of its weight as a target: the
    weighted sum of the variances of separate tables is least with such shares. The width of the
    noise is 1 / factor, so a factor is the square root of a share.
    """
    found = {}
    for table in shared.agreed.shape.grouping_tables:
        _, target = shared.targets.get((table.level, table.attributes), (0, None))
        weight = Fraction(1) if target is None else target.weight or Fraction(1)
        root = math.isqrt(math.isqrt(math.floor(weight * 2**80)))
        found[table.name, shared.agreed.measurement.name] = Fraction(max(root, 1), 2**20)
    return found


def _missed_target_errors(
    agreed: FamilyColumn, spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    """Yield an error for each target whose margin of error is larger than declared."""
    # Negated below, so that a margin of NaN is missed, too.
    for i, margin, moe in margins_of(agreed, spec):
        if not margin <= moe:
            yield _missed_target_error(place, i, agreed.name, margin, (Fraction(margin) / moe) ** 2)


def margins_of(agreed: FamilyColumn, spec: ConsistentSpec) -> Iterator[tuple[int, float, Fraction]]:
    """Yield (index, planned margin, limit) for each target of a column that limits a margin."""
    limited = {
        level_and_table: (i, target.moe)
        for level_and_table, (i, target) in _targets(agreed, spec).items()
        if target.moe is not None
    }
    levels = range(len(agreed.shape.levels))
    limited_tables = [[table for at, table in limited if at == level] for level in levels]
    for row in expected_errors(agreed.variances, limited_tables, agreed.quantile):
        i, moe = limited[row.level, row.table]
        yield i, row.margin.greatest * float(agreed.step), moe


def _unreachable_target_error(
    declaration: Declaration, shared: SharedColumn, nearest: Allocation
) -> DpReleaseError:
    """Return the error for limits that no shares meet, about the target that is missed most."""
    worst = max(nearest.parts, key=nearest.parts.__getitem__)
    i, target = shared.targets[worst]
    placer = _places_in_query(declaration, shared.family)
    agreed, moe = shared.agreed, target.moe or Fraction(0)
    aimed_at = _margin_in_steps(agreed, moe) * agreed.step
    margin = float(aimed_at) * math.sqrt(nearest.parts[worst])
    return _missed_target_error(
        placer, i, agreed.name, margin, nearest.needs * (aimed_at / moe) ** 2
    )


def _missed_target_error(
    place: Placer, i: int, column: str, margin: float, factor: Fraction
) -> DpReleaseError:
    """Return the error of the target with this index, whose margin is too large."""
    # A larger fraction could exceed all floats.
    needed = float(min(factor, LARGEST_FACTOR))
    return QueryError(
        "DP-CONSIST-020",
        place=place("consistent", "targets", i, "moe"),
        column=column,
        margin=f"{margin:.3g}",
        factor=f"{needed:.3g}",
        root=f"{math.sqrt(needed):.3g}",
    )
