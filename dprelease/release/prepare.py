"""From a declaration to queries and a plan; loads no database and opens no data."""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.errors import DpReleaseError, Findings, Place, raise_all
from dprelease.mechanisms import registry
from dprelease.query.resolve import Query, resolve
from dprelease.release.counting import Charged, counted_by
from dprelease.release.guarantee import check_budget
from dprelease.release.plan import Plan, make_plan
from dprelease.release.shares import shares_of
from dprelease.schema.load import Declaration
from dprelease.schema.mechanism import AUTO
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
    queries = _resolved(declaration)

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


def _resolved(declaration: Declaration) -> tuple[Query, ...]:
    """Return the queries; every finding of queries, mechanisms and budget is raised together."""
    queries: tuple[Query, ...] = ()
    errors: list[DpReleaseError] = []
    try:
        queries = resolve(declaration)
    except Findings as several:
        errors += several.errors
    except DpReleaseError as error:
        errors.append(error)
    told = {error.place for error in errors}
    errors += [error for error in _unknown_mechanisms(declaration) if error.place not in told]
    if errors:
        try:
            check_budget(declaration.spec.budget, declaration.place("budget"))
        except DpReleaseError as error:
            errors.append(error)
    raise_all(errors)
    return queries


def _unknown_mechanisms(declaration: Declaration) -> Iterator[DpReleaseError]:
    """Yield a finding for every declared mechanism that there is not."""
    asked = [(declaration.spec.mechanism, declaration.place("mechanism"))]
    for name, query in declaration.spec.queries.items():
        for column, spec in query.columns.items():
            if spec.mechanism is not None:
                place = declaration.place("queries", name, "columns", column, "mechanism")
                asked.append((spec.mechanism, place))
    for mechanism, place in asked:
        if mechanism.name == AUTO or mechanism.name in registry.selection_names():
            continue
        try:
            registry.check_name(mechanism.name, place)
        except DpReleaseError as error:
            yield error
