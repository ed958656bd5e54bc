"""The kinds of releases: tables of aggregates, single records, or messages of one party.

Each kind is one object, and `kind_of` returns the kind of a declaration. The object resolves and
plans the release, and has the reasons why something is not possible with this kind. This layer
imports no manifests, files or checks. So `release/kinds.py` has the classes that publish each kind,
and checks of published folders select their code by the format of the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dprelease.errors import DpReleaseError, Place, raise_all
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.declaration_findings import (
    queries_and_findings,
    relocate_findings,
    single_errors,
)
from dprelease.planning.guarantees import ledger_cost_of
from dprelease.planning.plan import Plan, make_plan
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import Declaration
from dprelease.schema.release import PRIVATE_KEYS, ReleaseSpec

if TYPE_CHECKING:
    from dprelease.query.local_records import Records

Part = TypeVar("Part")
"""Type of the parts that a kind of release publishes: queries, or tables of records."""

Weights = Mapping[tuple[str, str], Fraction]
EQUAL_WEIGHTS: Weights = MappingProxyType({})


class ReleaseKind(Generic[Part]):
    """A kind of release; the defaults hold for tables of aggregates."""

    mode_problem = "it declares another mode"
    """Text of the finding on a manifest of this kind whose declaration is of another kind."""

    profile_problem = ""
    """Reason why the data of such a release can't be profiled; empty if they can."""

    engine_problem = ""
    """Reason why only the default engine can run such a release; empty if other engines can."""

    joint_scan_problem = ""
    """Reason why no two tables are read in one scan; empty if one scan may read several tables."""

    has_charts = True
    """Whether charts of the plan can be drawn."""

    compares_noise = True
    """Whether forecasts of the ledger compare the declared noise with other mechanisms."""

    has_all_formats = True
    """Whether such a release can be published in every format."""

    has_ledger = True
    """Whether a ledger can be charged for such a release."""

    def resolve(self, declaration: Declaration) -> tuple[Part, ...]:
        """Return the parts of the release, in declared order, or raise all errors together."""
        raise NotImplementedError

    def plan(self, declaration: Declaration, weights: Weights = EQUAL_WEIGHTS) -> Plan:
        """Return the plan; `weights` divide the budget among consistent tables.

        Raises QueryError, BudgetError or Findings if a query has no bounded meaning, or nothing
        fits the budget.
        """
        queries, errors = queries_and_findings(declaration)
        raise_all(errors)
        spec = declaration.spec
        query_of, tables = spec.query_of_table, spec.published_tables

        def place(query: str, column: str) -> Place:
            """Return the position of a column of a query, or of the budget if `query` is empty."""
            if not query:
                return declaration.place("budget")
            is_key = tables[query].private_keys and column == PRIVATE_KEYS
            within = (column,) if is_key else ("columns", column)
            return declaration.place("queries", query_of[query], *within)

        shares = shares_of(spec, queries, weights)
        charged = None
        if spec.ledger is not None:  # `auto` then minimizes errors for the ledger's charge
            pure = spec.budget.rho is None and spec.budget.delta == 0
            charged = ledger_cost_of(declaration.folder / spec.ledger, queries, pure=pure)
        try:
            return make_plan(queries, spec.budget, place, shares, charged=charged)
        except DpReleaseError as error:
            relocate_findings(single_errors(error), declaration)
            raise

    def statements(self, plan: Plan) -> dict[str, str]:
        """Return the SQL query of each published table, by name, for declared column types."""
        from dprelease.statements.compiled_queries import compile_without_data

        return {query.name: compile_without_data(query).text for query in plan.queries}


class _CentralKind(ReleaseKind[Query]):
    """Tables of aggregates with noise."""

    def resolve(self, declaration: Declaration) -> tuple[Query, ...]:
        """Return the checked queries."""
        return resolve(declaration)


class _LocalKind(ReleaseKind["Records"]):
    """Single records with noise; the modules of the plan load only for such releases."""

    mode_problem = "it does not declare the mode local"
    profile_problem = "of single records has no bounds to profile"
    engine_problem = "single records need the engine duckdb"
    joint_scan_problem = "noise is added record by record"
    has_charts = compares_noise = has_all_formats = False

    def resolve(self, declaration: Declaration) -> tuple[Records, ...]:
        """Return the checked records."""
        from dprelease.query.local_records import resolve_records

        return resolve_records(declaration)

    def plan(self, declaration: Declaration, weights: Weights = EQUAL_WEIGHTS) -> Plan:
        """Return the plan of a local release; it has no families, and needs no weights."""
        from dprelease.planning.local_plan import prepare_local

        return prepare_local(declaration)

    def statements(self, plan: Plan) -> dict[str, str]:
        """Return the SQL that reads the records of each table, by name."""
        from dprelease.statements.record_statements import assumed_types_of, compile_records

        return {
            part.name: compile_records(part, assumed_types_of(part)).sql for part in plan.records
        }


class _FederatedKind(ReleaseKind[Query]):
    """Messages of one party, which add up to tables of aggregates."""

    mode_problem = "it declares no parties"
    profile_problem = "of several parties has data that none of them may see completely"
    has_all_formats = has_ledger = False

    def resolve(self, declaration: Declaration) -> tuple[Query, ...]:
        """Return the checked queries of one party."""
        from dprelease.planning.federated_plan import resolve_federated

        return resolve_federated(declaration)

    def plan(self, declaration: Declaration, weights: Weights = EQUAL_WEIGHTS) -> Plan:
        """Return the plan of a federated release; it has no families, and needs no weights."""
        from dprelease.planning.federated_plan import prepare_federated

        return prepare_federated(declaration)


CENTRAL, LOCAL, FEDERATED = _CentralKind(), _LocalKind(), _FederatedKind()


def kind_of(spec: ReleaseSpec) -> ReleaseKind[Any]:
    """Return the kind of a declared release."""
    if spec.mode == "local":
        return LOCAL
    return CENTRAL if spec.federated is None else FEDERATED
