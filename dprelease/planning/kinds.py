"""The kinds of releases: tables of aggregates, single records, or messages of one party.

Each kind is one object, and `kind_of` returns that of a declaration. It knows how the release is
resolved and planned, and what is not possible with it. It can't know more in this layer, which
imports no manifests, files or checks: what a run publishes is in `release/kinds.py`, by one class
for each kind, and checks of published folders are chosen by the format of their manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dprelease.errors import DpReleaseError, Place, raise_all
from dprelease.planning.auto.ledger_cost import counted_by
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.declaration_findings import queries_and_findings, relocate_findings, several
from dprelease.planning.plan import Plan, make_plan
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import Declaration
from dprelease.schema.release import PRIVATE_KEYS, ReleaseSpec

if TYPE_CHECKING:
    from dprelease.query.local_records import Records

Part = TypeVar("Part")
"""What a kind publishes one by one: queries, or records."""

Weights = Mapping[tuple[str, str], Fraction]
EQUAL: Weights = MappingProxyType({})


class ReleaseKind(Generic[Part]):
    """A kind of release; the defaults hold for tables of aggregates."""

    mode_problem = "it declares another mode"
    """The finding on a manifest of this kind whose declaration is of another one."""

    profile_problem = ""
    """Why the data can't be profiled; empty if they can."""

    engine_problem = ""
    """Why only the default engine can run it; empty if others can."""

    read_alone = ""
    """Why no two tables are read in one scan; empty if they may be."""

    has_charts = True
    """Whether its plan can be drawn."""

    compares_noise = True
    """Whether forecasts of the ledger compare its noise with other mechanisms."""

    has_all_formats = True
    """Whether it can be published in every format."""

    has_ledger = True
    """Whether a ledger can pay for it."""

    def resolve(self, declaration: Declaration) -> tuple[Part, ...]:
        """Return what the release publishes, in declared order; raises all errors together."""
        raise NotImplementedError

    def plan(self, declaration: Declaration, weights: Weights = EQUAL) -> Plan:
        """Return the plan; `weights` divide the budget among consistent tables.

        Raises
        ------
        QueryError, BudgetError, Findings
            If a query has no bounded meaning, or nothing fits the budget.
        """
        queries, errors = queries_and_findings(declaration)
        raise_all(errors)
        spec = declaration.spec
        asked_by, tables = spec.query_of_table, spec.published_tables

        def place(query: str, column: str) -> Place:
            if not query:
                return declaration.place("budget")
            is_key = tables[query].private_keys and column == PRIVATE_KEYS
            within = (column,) if is_key else ("columns", column)
            return declaration.place("queries", asked_by[query], *within)

        shares = shares_of(spec, queries, weights)
        charged = None
        if spec.ledger is not None:  # `auto` then minimizes errors for the ledger's charge
            pure = spec.budget.rho is None and spec.budget.delta == 0
            charged = counted_by(declaration.folder / spec.ledger, queries, pure=pure)
        try:
            return make_plan(queries, spec.budget, place, shares, charged=charged)
        except DpReleaseError as error:
            relocate_findings(several(error), declaration)
            raise

    def statements(self, plan: Plan) -> dict[str, str]:
        """Return the SQL of what is published, by name, for the declared types of columns."""
        from dprelease.statements.compiled_queries import compile_without_data

        return {query.name: compile_without_data(query).text for query in plan.queries}


class _Central(ReleaseKind[Query]):
    """Tables of aggregates with noise."""

    def resolve(self, declaration: Declaration) -> tuple[Query, ...]:
        return resolve(declaration)


class _Local(ReleaseKind["Records"]):
    """Single records with noise; the modules of the plan load only for such releases."""

    mode_problem = "it does not declare the mode local"
    profile_problem = "of single records has no bounds to profile"
    engine_problem = "single records need the engine duckdb"
    read_alone = "noise is added record by record"
    has_charts = compares_noise = has_all_formats = False

    def resolve(self, declaration: Declaration) -> tuple[Records, ...]:
        from dprelease.query.local_records import resolve_records

        return resolve_records(declaration)

    def plan(self, declaration: Declaration, weights: Weights = EQUAL) -> Plan:
        from dprelease.planning.local_plan import prepare_local

        return prepare_local(declaration)

    def statements(self, plan: Plan) -> dict[str, str]:
        from dprelease.statements.record_statements import assumed_types_of, compile_records

        return {
            part.name: compile_records(part, assumed_types_of(part)).sql for part in plan.records
        }


class _Federated(ReleaseKind[Query]):
    """Messages of one party, which add up to tables of aggregates."""

    mode_problem = "it declares no parties"
    profile_problem = "of several parties has data that none of them may see completely"
    has_all_formats = has_ledger = False

    def resolve(self, declaration: Declaration) -> tuple[Query, ...]:
        from dprelease.planning.federated_plan import resolve_federated

        return resolve_federated(declaration)

    def plan(self, declaration: Declaration, weights: Weights = EQUAL) -> Plan:
        from dprelease.planning.federated_plan import prepare_federated

        return prepare_federated(declaration)


CENTRAL, LOCAL, FEDERATED = _Central(), _Local(), _Federated()


def kind_of(spec: ReleaseSpec) -> ReleaseKind[Any]:
    """Return the kind of a declared release."""
    if spec.mode == "local":
        return LOCAL
    return CENTRAL if spec.federated is None else FEDERATED
