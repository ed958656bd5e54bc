"""The plan: mechanism, scale and price of every column, decided before any row is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.rounding import finite, plain_text, round_up
from dprelease.privacy.accounting import epsilon_at, pure_epsilon
from dprelease.privacy.event import Event
from dprelease.privacy.priced import Priced
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Measure, Query
from dprelease.release.choice import Wish, drafts_of
from dprelease.release.draft import priced, solve
from dprelease.schema.release import BudgetSpec

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**9), Fraction(100)
LEAST_DELTA, LARGEST_DELTA = Fraction(1, 10**300), Fraction(1, 100)

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
        return priced(self.mechanism, self.measure.sensitivity)

    @property
    def bias(self) -> float:
        """Return the mean of one cell's noise, in the column's unit."""
        return self.mechanism.mean * float(self.measure.step)

    @property
    def mean_absolute_error(self) -> float:
        """Return the expected absolute error of one cell, in the column's unit; maybe infinite."""
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
        "bias": column.bias,
        "expected_absolute_error": finite(column.mean_absolute_error),
        "standard_deviation": finite(column.standard_deviation),
        "margin_95": float(column.margin()),
    }


def make_plan(queries: Sequence[Query], budget: BudgetSpec, place: Placer | None = None) -> Plan:
    """Return the plan that spends the budget to within 0.1 %, and never more.

    Raises
    ------
    BudgetError
        DP-BUDGET-001 to 004, DP-MECH-001 to 005; `place` gives the place of a column.
    """
    where = place or (lambda query, column: Place(key=f"queries.{query}.columns.{column}"))
    check_budget(budget, where("", ""))
    wishes = [
        (query, Wish(measure, where(query.name, measure.name)))
        for query in queries
        for measure in query.measures
    ]
    drafts, how = drafts_of([wish for _, wish in wishes], budget)
    mechanisms = solve(drafts, budget.epsilon, budget.delta)
    columns = []
    for (query, wish), draft, mechanism in zip(wishes, drafts, mechanisms, strict=True):
        chosen = "declared" if wish.fixes(draft) else how
        columns.append(PlannedColumn(query, wish.measure, mechanism, chosen))
    guarantee = _guarantee([column.priced for column in columns], budget)
    if Fraction(guarantee.epsilon) > budget.epsilon:
        raise BudgetError(
            "DP-BUDGET-004", place=where("", ""), reason="the price exceeds the budget"
        )
    return Plan(tuple(columns), guarantee)


def price(events: Sequence[Event], budget: BudgetSpec) -> Guarantee:
    """Return the guarantee of recorded events, from the records alone."""
    vectors = []
    for event in events:
        mechanism = registry.get(event.mechanism).of(**dict(event.parameters))
        vectors.append(priced(mechanism, event.sensitivity))
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


def check_budget(budget: BudgetSpec, place: Place) -> None:
    """Raise BudgetError DP-BUDGET-001 or 002 for an epsilon or a delta out of range."""
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
