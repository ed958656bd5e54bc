"""From a declaration to queries and a plan; loads no database and opens no data."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from dprelease.errors import DpReleaseError, Place, raise_all
from dprelease.planning.auto.ledger_cost import LedgerCost, counted_by
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.declaration_findings import queries_and_findings, relocate_findings, several
from dprelease.planning.families.family_plan import refuse_families
from dprelease.planning.plan import Plan, make_plan
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release import PRIVATE_KEYS

Weights = Mapping[tuple[str, str], Fraction]


def prepare(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """Return the queries and the plan of a declaration.

    Raises
    ------
    QueryError, BudgetError, Findings
        If a query has no bounded meaning, nothing fits the budget, or a family of tables is
        impossible as declared.
    """
    queries, plan = _resolve_and_plan(declaration)
    refuse_families(declaration, plan.columns)
    if declaration.spec.budget.spend == "least":
        from dprelease.planning.families.least_budget import least  # slow to import

        return queries, least(
            declaration, plan, lambda of, weights: _resolve_and_plan(of, weights)[1]
        )
    if not any(query.consistent for query in declaration.spec.queries.values()):
        return queries, plan
    from dprelease.planning.families.family_shares import optimize_shares  # slow to import

    return queries, optimize_shares(
        declaration, plan, lambda weights: _resolve_and_plan(declaration, weights)[1]
    )


def _resolve_and_plan(
    declaration: Declaration, weights: Weights = MappingProxyType({})
) -> tuple[tuple[Query, ...], Plan]:
    if declaration.spec.mode == "local":
        from dprelease.planning.local_plan import prepare_local

        local = prepare_local(declaration)
        return tuple(part.query for part in local.records), local
    if declaration.spec.federated is not None:
        from dprelease.planning.federated_plan import prepare_federated, resolve_federated

        return resolve_federated(declaration), prepare_federated(declaration)
    queries, errors = queries_and_findings(declaration)
    raise_all(errors)
    asked_by, tables = declaration.spec.query_of_table, declaration.spec.published_tables

    def place(query: str, column: str) -> Place:
        if not query:
            return declaration.place("budget")
        is_key = tables[query].private_keys and column == PRIVATE_KEYS
        within = (column,) if is_key else ("columns", column)
        return declaration.place("queries", asked_by[query], *within)

    shares, charged = (
        shares_of(declaration.spec, queries, weights),
        _ledger_charge(declaration, queries),
    )
    try:
        return queries, make_plan(queries, declaration.spec.budget, place, shares, charged=charged)
    except DpReleaseError as error:
        relocate_findings(several(error), declaration)
        raise


def _ledger_charge(declaration: Declaration, queries: tuple[Query, ...]) -> LedgerCost | None:
    """Return the measure of the release's ledger; None without a ledger."""
    spec = declaration.spec
    if spec.ledger is None:
        return None
    pure = spec.budget.rho is None and spec.budget.delta == 0
    return counted_by(declaration.folder / spec.ledger, queries, pure=pure)
