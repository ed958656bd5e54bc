"""The plan: mechanism, scale and privacy cost of every column, decided before any row is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dprelease.errors import BudgetError, Place, raise_all
from dprelease.errors.argument_types import checked_methods
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import finite
from dprelease.planning.auto.mechanism_choice import noises_of
from dprelease.planning.bounded_words import (
    contribution_limits_texts,
    counted_rows_texts,
    cutting_limits,
    differently_bounded,
    differently_counted,
)
from dprelease.planning.budget_shares import Share, spend_budget, undivided_share
from dprelease.planning.calibration import Factors, make_accounting_input
from dprelease.planning.guarantees import (
    LedgerCost,
    budget_of,
    check_budget,
    extra_ledger_cost,
    guarantee_of,
    has_no_amount,
    interpretation_of,
    meets_budget,
)
from dprelease.planning.invariant_plans import (
    INVARIANT_MECHANISM,
    INVARIANT_ORIGIN,
    invariant_warnings,
    invariants_of,
    without_invariants,
)
from dprelease.planning.largest_totals import too_large_total_errors
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.planning.notes.published_columns import (
    NO_ESTIMATES,
    PublishedColumn,
    column_to_json,
    published_columns,
)
from dprelease.planning.notes.warnings import guarantee_warnings, negligible_noise_warnings
from dprelease.planning.quantile_target import (
    path_width,
    quantile_error,
    rank_shift,
    rows_inside_texts,
)
from dprelease.planning.treatments import treatment_record
from dprelease.postprocess.derived_values import is_computed, typical_margin
from dprelease.postprocess.families import Family, families_of
from dprelease.postprocess.quantile_order import is_quantile
from dprelease.privacy.budget import Budget
from dprelease.privacy.guarantee import Event, Guarantee
from dprelease.privacy.priced_vector import PricedVector, count_equal_vectors
from dprelease.privacy.renyi import renyi_of, rho_of
from dprelease.query.measurement import Measurement, OutputColumn
from dprelease.query.resolve import Query
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.release import BudgetSpec
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    from dprelease.query.local_records import Records

FEW_KINDS = 16
"""A plan with at most so many kinds of columns also reports its guarantee in other definitions."""

ORDERS = (2, 8, 32)
"""Orders of the reported Rényi divergences."""

PlaceOfColumn = Callable[[str, str], Place]


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One column with its noise; its errors and margins are in the unit of the column."""

    query: Query
    measurement: Measurement
    mechanism: Randomizer
    chosen_by: str

    def __repr__(self) -> str:
        name = f"{self.query.name}.{self.measurement.name}"
        return f"<PlannedColumn: {name}, {self.mechanism.name}>"

    @property
    def event(self) -> Event:
        """Return the record of the noise that the run will add."""
        return Event(
            query=self.query.name,
            column=self.measurement.name,
            mechanism=self.mechanism.name,
            parameters=self.mechanism.parameters,
            sensitivity=self.measurement.sensitivity,
        )

    @property
    def is_bounded(self) -> bool:
        """Return whether contribution limits may leave out rows of a person."""
        return cutting_limits(self.query, [self.measurement]) is not None

    @property
    def accounting_input(self) -> PricedVector:
        """Return the column's losses and sensitivity, as input for the accountant."""
        return make_accounting_input(self.mechanism, self.measurement.sensitivity)

    @property
    def bias(self) -> float:
        """Return the mean of one cell's noise, in the column's unit."""
        return self.mechanism.mean * float(self.measurement.error_step)

    @property
    def mean_absolute_error(self) -> float:
        """Return the expected absolute error of one cell, in `error_unit`; it may be infinite."""
        error = self.mechanism.mean_absolute_error * float(self.measurement.error_step)
        if self._tree_levels > 1:
            return min(self._tree_levels * error, self.standard_deviation)
        return error + float(self._rows_inside)

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of one cell's noise, in the column's unit."""
        error = self.mechanism.standard_deviation * float(self.measurement.error_step)
        return error * math.sqrt(self._tree_levels) + float(self._rows_inside)

    @property
    def confidence(self) -> Fraction:
        """Return the declared confidence of the margin of error, or 95 %."""
        return self.measurement.confidence or DEFAULT_CONFIDENCE

    def margin(self, confidence: float = 0.95) -> Fraction:
        """Return the exact margin of error of one cell at a confidence, in the column's unit."""
        if self._tree_levels > 1 and isinstance(self.mechanism, Mechanism):
            return Fraction(path_width(self.mechanism, self._tree_levels, confidence))
        return (
            self.mechanism.half_width(confidence) * self.measurement.error_step + self._rows_inside
        )

    @property
    def _tree_levels(self) -> int:
        """Return the number of tree levels whose noise adds up; 1 without a tree."""
        return self.measurement.aggregate.levels

    @property
    def _rows_inside(self) -> Fraction:
        """Return how many ranks the target of an end lies away from its quantile; otherwise 0."""
        shift = abs(rank_shift(self.measurement.aggregate, self.mechanism))
        return max(0, shift - 1) * self.measurement.error_step


@dataclass(frozen=True, repr=False)
@checked_methods
class Plan(Summarized):
    """All columns of a release and their common guarantee."""

    columns: tuple[PlannedColumn, ...]
    guarantee: Guarantee
    budget: Budget
    warnings: tuple[str, ...] = ()
    shared: tuple[str, ...] = field(default=(), kw_only=True)
    """Sentences on how close the shares of consistent tables are to the optimum."""
    limits: Plan | None = field(default=None, kw_only=True)
    """The plan of the release that chooses contribution limits privately; None without one."""
    tables_alone: Guarantee | None = field(default=None, kw_only=True)
    """The guarantee without the choice of limits, if `guarantee` contains this choice."""

    @property
    def tables_guarantee(self) -> Guarantee:
        """Return the guarantee of the tables, without the choice of contribution limits."""
        return self.tables_alone or self.guarantee

    @property
    def _vectors(self) -> list[PricedVector]:
        """Return all noisy columns, with the choices of limits, as input for the accountant.

        Only costs that add up for adaptive releases may be computed from them.
        """
        chosen = () if self.limits is None else self.limits.noisy_columns
        return [column.accounting_input for column in (*chosen, *self.noisy_columns)]

    @property
    def records(self) -> tuple[Records, ...]:
        """Return the records of a local release; an empty tuple for other kinds of releases."""
        return ()

    def _summary(self) -> Summary:
        """Return the mechanism and the margin of error of every column."""
        rows = [
            (c.query.name, c.measurement.name, c.mechanism.name, f"{float(c.margin()):g}")
            for c in self.columns
        ]
        title = f"Plan: epsilon {self.guarantee.epsilon:g}, delta {float(self.guarantee.delta):g}"
        return title, ("query", "column", "mechanism", "margin of error"), rows

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """Return the queries of all columns, in declared order."""
        return tuple({column.query.name: column.query for column in self.columns}.values())

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Return the families of tables, each with its step, in declared order."""
        return families_of(self.columns)

    @property
    def noisy_columns(self) -> tuple[PlannedColumn, ...]:
        """Return the columns that noise protects: all columns except invariants."""
        return without_invariants(self.columns)

    def costs_alone(self) -> list[float]:
        """Return what each column would cost without the others, in the budget's measure.

        The cost of an invariant is infinite, because no budget covers it.
        """
        known: dict[object, float] = {}
        costs = []
        for column in self.columns:
            vector = None if column.measurement.exact else column.accounting_input
            key = None if vector is None else (vector.key, vector.sensitivity)
            if key not in known:
                known[key] = math.inf if vector is None else self.budget.cost_of([vector])
            costs.append(known[key])
        return costs

    def rho(self) -> float | None:
        """Return the rho of the release; None if no rho exists, or columns have many kinds."""
        vectors = self._vectors
        return finite(rho_of(vectors)) if len(count_equal_vectors(vectors)) <= FEW_KINDS else None

    def definitions(self) -> dict[str, Any]:
        """Return the guarantee under each definition; None where no number is known."""
        vectors = self._vectors
        few = len(count_equal_vectors(vectors)) <= FEW_KINDS
        orders = {str(order): renyi_of(vectors, order) if few else math.inf for order in ORDERS}
        return {
            "pure_epsilon": finite(self.guarantee.pure_epsilon),
            "epsilon_at_delta": [self.guarantee.epsilon, float(self.guarantee.delta)],
            "rho": self.rho(),
            "renyi": {order: finite(epsilon) for order, epsilon in orders.items()},
        }

    def computed_columns(self) -> Iterator[tuple[Query, OutputColumn, float | None]]:
        """Yield columns whose error depends on values, with a margin of error (95 %) in their unit.

        They are quantiles, and columns that are computed from several vectors. The margin holds for
        a cell of 1,000 rows spread evenly over the bounds; for a sum, it holds for any cell. It is
        None if it depends on other numbers.
        """
        for query in self.queries:
            mechanisms = self.mechanisms_of(query)
            for column in query.columns:
                if is_computed(column):
                    yield query, column, typical_margin(column, mechanisms, 0.95)
                elif is_quantile(column):
                    yield query, column, quantile_error(column, mechanisms).in_unit

    def mechanisms_of(self, query: Query) -> dict[str, Randomizer]:
        """Return the noise of each measurement of a query, by name."""
        return {c.measurement.name: c.mechanism for c in self.of_query(query.name)}

    def rows_inside_texts(self) -> list[str]:
        """Return sentences on what minima and maxima promise in small groups."""
        return list(rows_inside_texts((query, self.mechanisms_of(query)) for query in self.queries))

    def published(
        self, estimates: Mapping[tuple[str, str], float] = NO_ESTIMATES
    ) -> list[PublishedColumn]:
        """Return every published number with its margin, and with what limits its accuracy.

        `estimates` are the margins of consistent tables, by table and column.
        """
        return list(published_columns(self, estimates))

    def of_query(self, name: str) -> tuple[PlannedColumn, ...]:
        """Return the columns of one query, in declared order."""
        return tuple(column for column in self.columns if column.query.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "guarantee": self.guarantee.to_json(),
            "definitions": self.definitions(),
            "columns": [
                {**column_to_json(column), "cost_alone": finite(cost)}
                for column, cost in zip(self.columns, self.costs_alone(), strict=True)
            ],
            "computed": [
                {
                    "query": query.name,
                    "column": column.name,
                    "formula": column.formula,
                    "unit": column.unit,
                    "margin_95": margin,
                }
                for query, column, margin in self.computed_columns()
            ],
            "published": [column.to_json() for column in self.published()],
            "counted_rows": counted_rows_texts(self.queries),
            "treatments": [treatment_record(query).to_json() for query in self.queries],
            "bounded_rows": contribution_limits_texts(self.queries),
            "differently_bounded": [asdict(one) for one in differently_bounded(self.queries)],
            "differently_counted": [asdict(one) for one in differently_counted(self.queries)],
            "rows_inside": self.rows_inside_texts(),
            "reading": interpretation_of(self.guarantee),
            "warnings": list(self.warnings),
            "shared": list(self.shared),
        }


def make_plan(
    queries: Sequence[Query],
    budget: BudgetSpec,
    place: PlaceOfColumn | None = None,
    share: Share | None = None,
    charged: LedgerCost | None = None,
) -> Plan:
    """Return the plan that spends between 99.9 % and 100 % of the budget.

    `place` returns the position of a column, for error messages. `share` divides the budget;
    without it, columns share the budget by their weights. `charged` is the measure of a ledger;
    `auto` then minimizes errors for the ledger's charge.

    Raises BudgetError: DP-BUDGET-001 to 010, DP-MECH-001 to 005. Raises QueryError or Findings:
    DP-QUERY-014 for totals that may be too large.
    """
    place_of = place or _place_without_file
    check_budget(budget, place_of("", ""))
    if any(query.neighbours is not budget.neighbours for query in queries):
        raise TypeError("sensitivities and guarantee need the same neighbouring relation")
    for query in queries:
        raise_all([*too_large_total_errors(query, partial(place_of, query.name))])
    requests = [
        (query, NoiseRequest(measurement, place_of(query.name, measurement.charged_column)))
        for query in queries
        for measurement in query.measurements
        if not measurement.exact
    ]
    share = share or undivided_share([request.measurement.weight for _, request in requests])
    limit, is_open = budget_of(budget), has_no_amount(budget)
    known: Factors = {}
    noises, origins = noises_of(
        [request for _, request in requests],
        share,
        limit,
        unlimited=is_open,
        charged=extra_ledger_cost(charged, limit),
        known=known,
    )
    mechanisms = spend_budget(share, noises, limit, unlimited=is_open, known=known)
    columns = _planned_columns(queries, zip(mechanisms, origins, strict=True))
    guarantee = guarantee_of_columns(columns, budget)
    # Once more for all columns together: the search for scales only found that each step fits.
    if not meets_budget(guarantee, budget):
        reason = f"all columns together cost epsilon {guarantee.epsilon:.4g}"
        raise BudgetError("DP-BUDGET-004", place=place_of("", ""), reason=reason)
    warnings = (
        *invariant_warnings(guarantee.invariants),
        *guarantee_warnings(queries, guarantee),
        *negligible_noise_warnings(without_invariants(columns)),
    )
    return Plan(columns, guarantee, limit, warnings)


def _planned_columns(
    queries: Sequence[Query], mechanisms: Iterator[tuple[Randomizer, str]]
) -> tuple[PlannedColumn, ...]:
    """Return all columns in declared order, from the mechanisms of noised columns, with origins."""
    columns = []
    for query in queries:
        for measurement in query.measurements:
            exact = (INVARIANT_MECHANISM, INVARIANT_ORIGIN)
            mechanism, origin = exact if measurement.exact else next(mechanisms)
            columns.append(PlannedColumn(query, measurement, mechanism, origin))
    return tuple(columns)


def guarantee_of_columns(columns: Sequence[PlannedColumn], budget: BudgetSpec) -> Guarantee:
    """Return the guarantee of all columns with noise, between tables with equal invariants."""
    guarantee = guarantee_of(
        [column.accounting_input for column in without_invariants(columns)], budget
    )
    return replace(guarantee, invariants=invariants_of(columns))


def _place_without_file(query: str, column: str) -> Place:
    """Return the position of a column, or of the budget, of a release that has no file."""
    return Place(key=f"queries.{query}.columns.{column}" if query else "budget")
