"""The plan of a local release: noise and privacy cost of every column of one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.errors import BudgetError, Place, raise_all
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.rounding import finite, plain_text
from dprelease.planning.auto.mechanism_choice import noises_of
from dprelease.planning.budget_shares import shares_of_records, spend_budget, undivided_share
from dprelease.planning.calibration import UnscaledNoise
from dprelease.planning.guarantees import (
    budget_findings,
    budget_of,
    except_for_delta,
    guarantee_of,
    has_no_amount,
    interpretation_of,
    meets_budget,
)
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.planning.notes.warnings import LARGE_EPSILON
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.privacy.budget import Budget
from dprelease.privacy.guarantee import Guarantee
from dprelease.query.local_records import RecordColumn, Records, resolve_records
from dprelease.schema.load import Declaration


@dataclass(frozen=True, slots=True)
class LocalColumn(PlannedColumn):
    """One column of a table of records, with its noise."""

    column: RecordColumn

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values, with the errors of one record."""
        return {
            **self.event.to_json(),
            "step": plain_text(self.measurement.step),
            "unit": self.measurement.unit,
            "chosen_by": self.chosen_by,
            **record_noise_json(self),
        }


def record_noise_json(planned: LocalColumn) -> dict[str, Any]:
    """Return the effect of noise on one record, as JSON values.

    These are the probabilities of answers for randomized response, and errors for a number.
    """
    mechanism = planned.mechanism
    if isinstance(mechanism, RandomizedResponse):
        return {
            "values": planned.column.value_count,
            "keep": mechanism.true_value_probability,
            "other": mechanism.false_value_probability,
        }
    step = planned.measurement.step
    return {
        "lower": plain_text(planned.column.low * step),
        "upper": plain_text(planned.column.high * step),
        "bias": planned.bias,
        "expected_absolute_error": finite(planned.mean_absolute_error),
        "standard_deviation": finite(planned.standard_deviation),
        "margin_95": plain_text(planned.margin()),
    }


@dataclass(frozen=True, repr=False)
class LocalPlan(Plan):
    """All columns of a local release; the guarantee covers all columns of one record together."""

    records: tuple[Records, ...] = ()

    @property
    def local_columns(self) -> tuple[LocalColumn, ...]:
        """Return the columns, in declared order."""
        return tuple(column for column in self.columns if isinstance(column, LocalColumn))

    def of_records(self, name: str) -> tuple[LocalColumn, ...]:
        """Return the columns of one table of records, in declared order."""
        return tuple(column for column in self.local_columns if column.query.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "mode": "local",
            "guarantee": self.guarantee.to_json(),
            "definitions": self.definitions(),
            "columns": [
                {**column.to_json(), "cost_alone": finite(cost)}
                for column, cost in zip(self.local_columns, self.costs_alone(), strict=True)
            ],
            "reading": local_interpretation_of(self.guarantee),
            "warnings": list(self.warnings),
        }


def local_interpretation_of(guarantee: Guarantee) -> dict[str, Any]:
    """Return what the guarantee means against somebody who sees all published records."""
    interpretation = interpretation_of(guarantee)
    interpretation["least_total_error_words"] = (
        "An attacker who guesses which of two true records a published record comes from errs by "
        "at least this much: the rates of both kinds of errors, added; 1 is blind guessing."
    )
    interpretation["largest_posterior_words"] = (
        "The published records can raise this prior belief in a statement about one record at "
        f"most to the posterior{except_for_delta(guarantee)}."
    )
    return interpretation


def prepare_local(declaration: Declaration) -> LocalPlan:
    """Return the plan that spends the budget on every single record, without opening data.

    The costs of all columns of all tables of records add up, as if the tables were about the same
    people.

    Raises QueryError, BudgetError or Findings: DP-LOCAL-001 to 006 if a column can't be noised, or
    nothing fits the budget.
    """
    records = resolve_records(declaration)
    spec = declaration.spec.budget
    raise_all(budget_findings(spec, lambda key: declaration.place("budget", key)))
    requests = [
        (table, column, NoiseRequest(column.measurement, _column_place(declaration, table, column)))
        for table in records
        for column in table.columns
    ]
    if has_no_amount(spec):
        name = requests[0][1].name
        raise BudgetError("DP-BUDGET-006", place=declaration.place("budget"), column=name)
    budget = budget_of(spec)
    noises, origins = _choose_noises([request for *_, request in requests], budget)
    share = shares_of_records(declaration.spec, [table.query for table in records])
    mechanisms = spend_budget(share, noises, budget)
    columns = tuple(
        LocalColumn(table.query, column.measurement, mechanism, chosen_by, column)
        for (table, column, _), mechanism, chosen_by in zip(
            requests, mechanisms, origins, strict=True
        )
    )
    guarantee = guarantee_of([column.accounting_input for column in columns], spec)
    if not meets_budget(guarantee, spec):
        reason = f"all columns together cost epsilon {guarantee.epsilon:.4g}"
        raise BudgetError("DP-BUDGET-004", place=declaration.place("budget"), reason=reason)
    return LocalPlan(columns, guarantee, budget, _local_warnings(guarantee), records)


def _column_place(declaration: Declaration, table: Records, column: RecordColumn) -> Place:
    return declaration.place("records", table.name, "columns", column.name)


def _local_warnings(guarantee: Guarantee) -> tuple[str, ...]:
    """Return a warning if epsilon is large for single records."""
    if guarantee.epsilon <= LARGE_EPSILON:
        return ()
    return (f"epsilon {guarantee.epsilon:.4g} promises little to a single record.",)


def _choose_noises(
    requests: Sequence[NoiseRequest], budget: Budget
) -> tuple[list[UnscaledNoise], list[str]]:
    """Return one noise for each column, and how it was selected.

    The noise families of numerical columns are selected as if these columns had only the part of
    the budget that their weights give them. The scales are then solved for all columns together.
    """
    noises = [
        _randomized_response_noise(request) if _is_randomized_response(request) else None
        for request in requests
    ]
    origins = ["declared"] * len(requests)
    positions = [i for i, noise in enumerate(noises) if noise is None]
    if positions:
        numbers = [requests[i] for i in positions]
        weights = [request.measurement.weight for request in numbers]
        # The families are compared at the scale that they will have: with their part of the budget.
        total = sum((request.measurement.weight for request in requests), Fraction(0))
        budget_part = budget.with_amount(budget.amount * sum(weights, Fraction(0)) / total)
        selected = noises_of(numbers, undivided_share(weights), budget_part)
        for i, noise, origin in zip(positions, *selected, strict=True):
            noises[i], origins[i] = noise, origin
    return [noise for noise in noises if noise is not None], origins


def _is_randomized_response(request: NoiseRequest) -> bool:
    return request.measurement.mechanism.name == RandomizedResponse.name


def _randomized_response_noise(request: NoiseRequest) -> UnscaledNoise:
    """Return the noise of randomized response among a column's values."""
    measurement = request.measurement
    for name in measurement.mechanism.shape:
        raise BudgetError(
            "DP-MECH-002",
            place=request.place,
            mechanism=RandomizedResponse.name,
            name=name,
            known="none",
        )
    aggregate = measurement.aggregate
    count = getattr(aggregate, "upper", 0) - getattr(aggregate, "lower", 0) + 1
    shape = {"values": repr(float(count))}
    return UnscaledNoise(
        RandomizedResponse, shape, measurement.sensitivity, measurement.weight, request.place
    )
