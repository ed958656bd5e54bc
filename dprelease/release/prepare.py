"""From a declaration to queries and a plan; loads no database and opens no data."""

from __future__ import annotations

from dprelease.errors import Place
from dprelease.query.resolve import Query, resolve
from dprelease.release.counting import Charged, counted_by
from dprelease.release.plan import Plan, make_plan
from dprelease.release.shares import shares_of
from dprelease.schema.load import Declaration
from dprelease.schema.release import PRIVATE_KEYS


def prepare(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """Return the queries and the plan of a declaration.

    Raises
    ------
    QueryError, BudgetError, Findings
        If a query has no bounded meaning, or nothing fits the budget.
    """
    if declaration.spec.mode == "local":
        from dprelease.release.local.plan import prepare_local

        local = prepare_local(declaration)
        return tuple(part.query for part in local.records), local
    if declaration.spec.federated is not None:
        from dprelease.release.federated.plan import prepare_federated, resolve_federated

        return resolve_federated(declaration), prepare_federated(declaration)
    queries = resolve(declaration)

    def place(query: str, column: str) -> Place:
        if not query:
            return declaration.place("budget")
        within = (column,) if column == PRIVATE_KEYS else ("columns", column)
        return declaration.place("queries", query, *within)

    shares = shares_of(declaration.spec, queries)
    return queries, make_plan(
        queries, declaration.spec.budget, place, shares, charged=_charged(declaration, queries)
    )


def _charged(declaration: Declaration, queries: tuple[Query, ...]) -> Charged | None:
    """Return what the release's ledger counts; None without one."""
    spec = declaration.spec
    if spec.ledger is None:
        return None
    pure = spec.budget.rho is None and spec.budget.delta == 0
    return counted_by(declaration.folder / spec.ledger, queries, pure=pure)
