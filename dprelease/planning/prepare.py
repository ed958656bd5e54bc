"""Derive queries and a plan from a declaration, without a database and without data."""

from __future__ import annotations

from dprelease.planning.families.family_plan import refuse_families
from dprelease.planning.kinds import kind_of
from dprelease.planning.plan import Plan
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration


def prepare(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """Return the queries and the plan of a declaration.

    Raises
    ------
    QueryError, BudgetError, Findings
        If the sensitivity of a query is not bounded, no noise fits the budget, or a family of
        tables is impossible as declared.
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
    return plan.queries, plan
