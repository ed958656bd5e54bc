"""Derive queries and a plan from a declaration, without a database and without data."""

from __future__ import annotations

from dataclasses import replace

from dprelease.planning.families.family_plan import refuse_families
from dprelease.planning.guarantees import add_guarantee
from dprelease.planning.kinds import CENTRAL, kind_of
from dprelease.planning.plan import Plan
from dprelease.privacy.guarantee import Guarantee
from dprelease.query.limit_release import limit_release
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration


def prepare(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """Return the queries and the plan of a declaration.

    Raises QueryError, BudgetError or Findings if the sensitivity of a query is not bounded, no
    noise fits the budget, or a family of tables is impossible as declared.
    """
    kind = kind_of(declaration.spec)
    plan = kind.plan(declaration)
    refuse_families(declaration, plan.families)
    if declaration.spec.budget.spend == "least":
        from dprelease.planning.families.least_budget import plan_of_least_budget  # slow to import

        plan = plan_of_least_budget(declaration, plan, kind.plan)
    elif any(query.consistent for query in declaration.spec.queries.values()):
        from dprelease.planning.families.family_shares import optimize_shares  # slow to import

        plan = optimize_shares(declaration, plan, lambda weights: kind.plan(declaration, weights))
    plan = plan if declaration.choices is None else _with_limits(declaration, plan)
    return plan.queries, plan


def _with_limits(declaration: Declaration, plan: Plan) -> Plan:
    """Return a plan whose guarantee contains the private choice of contribution limits."""
    limits = CENTRAL.plan(limit_release(declaration))
    total = guarantee_with_limits(declaration, plan.guarantee, limits)
    return replace(plan, guarantee=total, tables_alone=plan.guarantee, limits=limits)


def guarantee_with_limits(
    declaration: Declaration, tables: Guarantee, limits: Plan | None = None
) -> Guarantee:
    """Return the guarantee of tables together with the private choice of their limits, if any.

    `limits`: the plan of the choice, which is planned if limits have not been chosen yet.
    """
    if declaration.choices is None:
        return tables
    if declaration.chosen is not None:
        return add_guarantee(declaration.chosen.guarantee, tables)
    plan = limits or CENTRAL.plan(limit_release(declaration))
    return add_guarantee(plan.guarantee, tables)
