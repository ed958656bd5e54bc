"""The plan: mechanism, scale and price of every column, decided before any row is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.rounding import plain_text, round_down, round_up
from dprelease.privacy.accounting import Priced, epsilon_at, pure_epsilon
from dprelease.privacy.calibrate import least_factor
from dprelease.privacy.event import Event
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Measure, Query
from dprelease.schema.release import AUTO, BudgetSpec

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**9), Fraction(100)
LEAST_DELTA, LARGEST_DELTA = Fraction(1, 10**300), Fraction(1, 100)
AUTO_FAMILIES = ("discrete_laplace", "discrete_gaussian")
ROOM = 1.0 + 2.0**-40
"""A pure split leaves this much, so that rounded shares can't add up to more than the budget."""

Placer = Callable[[str, str], Place]


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One column with its noise; errors and margins are in the column's own unit."""

    query: Query
    measure: Measure
    mechanism: Mechanism
    chosen_by: str

    @property
    def event(self) -> Event:
        """Return the record of what will run."""
        return Event(
            query=self.query.name,
            column=self.measure.name,
            mechanism=self.mechanism.name,
            parameters=self.mechanism.parameters,
            sensitivity=self.measure.sensitivity,
        )

    @property
    def priced(self) -> Priced:
        """Return what the accountant needs."""
        return Priced(self.mechanism, self.mechanism.losses, self.measure.sensitivity)

    @property
    def mean_absolute_error(self) -> float:
        """Return the expected absolute error of one cell, in the column's unit."""
        return self.mechanism.mean_absolute_error * float(self.measure.step)

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of one cell's noise, in the column's unit."""
        return self.mechanism.standard_deviation * float(self.measure.step)

    def margin(self, confidence: float = 0.95) -> Fraction:
        """Return the margin of error of one cell at a confidence, exact, in the column's unit."""
        return self.mechanism.half_width(confidence) * self.measure.step


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What the release promises: (epsilon, delta), rounded up, and how it was added up."""

    epsilon: float
    delta: Fraction
    neighbours: Neighbours
    accountant: str
    pure_epsilon: float

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values; an infinite pure epsilon is null."""
        return {
            "epsilon": repr(self.epsilon),
            "delta": plain_text(self.delta),
            "neighbours": self.neighbours.value,
            "accountant": self.accountant,
            "pure_epsilon": None if math.isinf(self.pure_epsilon) else repr(self.pure_epsilon),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """All columns of a release and their common guarantee."""

    columns: tuple[PlannedColumn, ...]
    guarantee: Guarantee

    def of_query(self, name: str) -> tuple[PlannedColumn, ...]:
        """Return the columns of one query, in declared order."""
        return tuple(column for column in self.columns if column.query.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "guarantee": self.guarantee.to_json(),
            "columns": [_column_json(column) for column in self.columns],
        }


def _column_json(column: PlannedColumn) -> dict[str, Any]:
    return {
        **column.event.to_json(),
        "cells": column.query.keys.size,
        "step": plain_text(column.measure.step),
        "unit": column.measure.unit,
        "chosen_by": column.chosen_by,
        "expected_absolute_error": column.mean_absolute_error,
        "standard_deviation": column.standard_deviation,
        "margin_95": float(column.margin()),
    }


def make_plan(queries: Sequence[Query], budget: BudgetSpec, place: Placer | None = None) -> Plan:
    """Return the plan that spends the budget to within 0.1 %, and never more.

    Raises
    ------
    BudgetError
        DP-BUDGET-001 to 004, DP-MECH-001 and DP-MECH-004; `place` gives the place of a column.
    """
    where = place or (lambda query, column: Place(key=f"queries.{query}.columns.{column}"))
    _check_budget(budget, where("", ""))
    drafts = [_Draft(query, measure) for query in queries for measure in query.measures]
    for draft in drafts:
        _check_mechanism(draft, budget, where)
    plans = []
    for family in AUTO_FAMILIES if any(d.is_auto for d in drafts) else AUTO_FAMILIES[:1]:
        if budget.delta > 0 or registry.get(family).pure:
            plans.append(_solve([draft.settled(family) for draft in drafts], budget, where))
    return min(plans, key=_relative_error)


def price(events: Sequence[Event], budget: BudgetSpec) -> Guarantee:
    """Return the guarantee of recorded events, from the records alone."""
    vectors = []
    for event in events:
        mechanism = registry.get(event.mechanism).of(**dict(event.parameters))
        vectors.append(Priced(mechanism, mechanism.losses, event.sensitivity))
    return _guarantee(vectors, budget)


def _guarantee(vectors: Sequence[Priced], budget: BudgetSpec) -> Guarantee:
    pure = pure_epsilon(vectors)
    epsilon = epsilon_at(vectors, budget.delta)
    return Guarantee(
        epsilon=epsilon,
        delta=budget.delta,
        neighbours=budget.neighbours,
        accountant="pure" if budget.delta == 0 else "pld",
        pure_epsilon=math.inf if pure is None else round_up(pure),
    )


@dataclass(frozen=True, slots=True)
class _Draft:
    """A column before its noise is settled."""

    query: Query
    measure: Measure
    family: str = ""
    chosen_by: str = "declared"

    @property
    def is_auto(self) -> bool:
        return self.measure.mechanism.name == AUTO

    def settled(self, auto_family: str) -> _Draft:
        if self.is_auto:
            return replace(self, family=auto_family, chosen_by="auto: least expected error")
        return replace(self, family=self.measure.mechanism.name)

    @property
    def base(self) -> Fraction:
        """Return the norm of the sensitivity over the weight: the scale at factor one."""
        sensitivity = self.measure.sensitivity
        if registry.get(self.family).norm == 1:
            return sensitivity.l1 / self.measure.weight
        return Fraction(math.isqrt(sensitivity.l2_squared * 4**40)) / 2**40 / self.measure.weight

    def at(self, factor: Fraction, where: Placer) -> PlannedColumn:
        kind, scale = registry.get(self.family), round_up(self.base * factor)
        mechanism = kind.of(where(self.query.name, self.measure.name), scale=scale)
        return PlannedColumn(self.query, self.measure, mechanism, self.chosen_by)


def _check_budget(budget: BudgetSpec, place: Place) -> None:
    if not LEAST_EPSILON <= budget.epsilon <= LARGEST_EPSILON:
        raise BudgetError(
            "DP-BUDGET-001",
            place=place,
            found=plain_text(budget.epsilon),
            least="1e-9",
            largest=LARGEST_EPSILON,
        )
    if budget.delta != 0 and not LEAST_DELTA <= budget.delta <= LARGEST_DELTA:
        raise BudgetError(
            "DP-BUDGET-002",
            place=place,
            found=plain_text(budget.delta),
            least="1e-300",
            largest="0.01",
        )


def _check_mechanism(draft: _Draft, budget: BudgetSpec, where: Placer) -> None:
    if draft.is_auto:
        return
    place = where(draft.query.name, draft.measure.name)
    mechanism = registry.get(draft.measure.mechanism.name, place)
    if budget.delta == 0 and not mechanism.pure:
        raise BudgetError(
            "DP-BUDGET-003",
            place=place,
            column=draft.measure.name,
            mechanism=mechanism.name,
            pure=", ".join(registry.pure_names()),
        )


def _solve(drafts: Sequence[_Draft], budget: BudgetSpec, where: Placer) -> Plan:
    """Return the plan at the least factor that fits; each draft's scale is factor x base."""
    place = where("", "")
    # A weight is a share of a pure budget: at this factor pure columns add up to epsilon.
    pure_factor = sum((draft.measure.weight for draft in drafts), Fraction(0)) / budget.epsilon

    def columns(factor: float) -> list[PlannedColumn]:
        return [draft.at(Fraction(factor), where) for draft in drafts]

    def epsilon(factor: float) -> float:
        try:
            planned = columns(factor)
        except BudgetError:
            return math.inf  # beyond the scales that are certified
        return epsilon_at([column.priced for column in planned], budget.delta)

    factor: float | None
    if budget.delta == 0:
        factor = round_up(pure_factor) * ROOM
    else:
        start = math.sqrt(len(drafts) * (1 + 2 * math.log(1 / float(budget.delta))))
        guess = min(float(pure_factor), start / float(budget.epsilon))
        factor = least_factor(epsilon, round_down(budget.epsilon), guess)
    if factor is None:
        reason = "delta is below what the composition can certify, or epsilon is too small"
        raise BudgetError("DP-BUDGET-004", place=place, reason=reason)
    planned = columns(factor)
    guarantee = _guarantee([column.priced for column in planned], budget)
    if Fraction(guarantee.epsilon) > budget.epsilon:
        raise BudgetError("DP-BUDGET-004", place=place, reason="the price exceeds the budget")
    return Plan(tuple(planned), guarantee)


def _relative_error(plan: Plan) -> float:
    """Return the sum of expected errors, each in units of its column's sensitivity."""
    return sum(
        column.mechanism.mean_absolute_error / column.measure.sensitivity.largest_shift
        for column in plan.columns
    )
