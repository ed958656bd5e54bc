"""What a plan says of each published number: its margin of error, and what limits its accuracy.

The parts from which a number is computed, such as the centred sum and the count of a mean, are not
published, so they are not listed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import finite, plain_text
from dprelease.planning.quantile_target import QuantileError, quantile_error
from dprelease.postprocess.derived_values import (
    EVENLY_SPREAD_ROWS,
    is_computed,
    typical_margin,
    typical_value,
)
from dprelease.postprocess.quantile_order import at_of, is_quantile
from dprelease.privacy.unit import PrivacyUnit, Sensitivity
from dprelease.query.measurement import Measurement, OutputColumn
from dprelease.query.resolve import Query
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan, PlannedColumn

NO_ESTIMATES: Mapping[tuple[str, str], float] = MappingProxyType({})

LARGE_FACTOR = 2.0
"""A share of the budget or a contribution limit is named if it at least doubles the error."""

FEW_ROWS_MARGIN = 0.15
"""A margin above this part of the width of the bounds is due to few rows."""


WHOLE_RANGE = 0.9
"""An interval that contains at least this part of the bounds says nothing."""


class Limit(StrEnum):
    """What limits the accuracy of a published number most."""

    BUDGET = "budget"
    CONTRIBUTIONS = "contribution_limits"
    BOUNDS = "bounds"
    ROWS = "rows"
    NOTHING = "nothing"


@dataclass(frozen=True)
class PublishedColumn:
    """A published column with its noise, before any data is read.

    `parts` are the noised vectors from which the column is computed. `rows` is the number of rows
    of the cell for which the margin of a mean, a variance or a quantile holds: the declared number
    of people by cell, or 1,000 if none is declared. `share` is what the parts would cost alone, as
    a part of the whole cost. `estimate` is the margin in consistent tables, if there is one.
    """

    query: Query
    column: OutputColumn
    parts: tuple[PlannedColumn, ...]
    rows: int
    rows_declared: bool
    share: float
    is_pure: bool
    is_concentrated: bool
    estimate: float | None = None

    @property
    def name(self) -> str:
        """Return the name of the table and of the column."""
        return f"{self.query.name}.{self.column.name}"

    @property
    def confidence(self) -> Fraction:
        """Return the confidence of the margin: the declared one, or 95 %."""
        declared = self.column.margin or self.column.interval or self.column.parts[0].confidence
        return declared or DEFAULT_CONFIDENCE

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Return the names of the mechanisms of all parts, without repetitions."""
        return tuple(dict.fromkeys(part.mechanism.name for part in self.parts))

    @property
    def depends_on_rows(self) -> bool:
        """Return whether the margin depends on the number of rows in a cell."""
        if is_quantile(self.column):
            return True
        return is_computed(self.column) and not self.column.form.on_lattice

    @property
    def unit(self) -> str:
        """Return the unit of the margin: the column's unit, or rows."""
        if is_computed(self.column) or is_quantile(self.column):
            return self.column.unit
        return self.column.parts[0].error_unit

    @property
    def ranks(self) -> float | None:
        """Return the ranks up to the farther end of a quantile; None for other columns."""
        return None if self._quantile is None else float(self._quantile.ranks)

    @cached_property
    def _quantile(self) -> QuantileError | None:
        """Return the error of a quantile in a cell of `rows` rows; None for other columns."""
        if not is_quantile(self.column):
            return None
        return quantile_error(self.column, self._noise, self.rows)

    @property
    def _noise(self) -> dict[str, Randomizer]:
        return {part.measurement.name: part.mechanism for part in self.parts}

    @cached_property
    def margin(self) -> float | None:
        """Return the margin of error in a cell of `rows` rows; None if it depends on values."""
        return self.margin_at(self.rows) if self.estimate is None else self.estimate

    def margin_at(self, rows: int) -> float | None:
        """Return the margin of error in a cell of so many rows, spread evenly over the bounds."""
        confidence = float(self.confidence)
        if is_quantile(self.column):
            return quantile_error(self.column, self._noise, rows).in_unit
        if is_computed(self.column):
            return typical_margin(self.column, self._noise, confidence, rows)
        return max(float(part.margin(confidence)) for part in self.parts)

    def relative_margin(self, rows: int) -> float:
        """Return the margin as a part of the value, in a cell of so many evenly spread rows.

        The result is NaN if no value is known.
        """
        estimate = self.estimate if not self.depends_on_rows else None
        margin = self.margin_at(rows) if estimate is None else estimate
        value = float(rows) if self.unit == "rows" else self._typical_value(rows)
        return math.nan if margin is None or not value else margin / abs(value)

    @property
    def says_nothing(self) -> bool:
        """Whether the interval of a quantile is about as wide as the bounds of its column."""
        width = self._width
        if not is_quantile(self.column) or self.margin is None or not width:
            return False
        return self.margin >= WHOLE_RANGE * width / 2

    @property
    def is_expected_unreliable(self) -> bool:
        """Whether the quality is D in a cell of `rows` rows; False if no value is known."""
        limits = self.column.quality
        return bool(limits) and self.relative_margin(self.rows) > float(limits[-1])

    def _typical_value(self, rows: int) -> float:
        """Return the value in a cell of so many rows, spread evenly over the bounds."""
        lattice = self.column.parts[0].aggregate.lattice
        if is_quantile(self.column) and lattice is not None:
            steps = lattice.lower + at_of(self.column) * (lattice.upper - lattice.lower)
            return float(steps * lattice.step)
        return typical_value(self.column, rows)

    @cached_property
    def limit(self) -> Limit:
        """Return what limits the accuracy most: the factor that increases the error most."""
        if any(part.measurement.exact for part in self.parts):
            return Limit.NOTHING
        width = self._width
        few_rows = (
            self.depends_on_rows
            and self.margin is not None
            and width is not None
            and self.margin > FEW_ROWS_MARGIN * width
        )
        if few_rows and self.rows_declared:
            return Limit.ROWS
        contributions = max(self._contribution_factor(part.measurement) for part in self.parts)
        budget = 1.0 / self.share if self.share else 1.0
        if max(contributions, budget) >= LARGE_FACTOR:
            return Limit.BUDGET if budget >= contributions else Limit.CONTRIBUTIONS
        if width is None:
            return Limit.BUDGET
        return Limit.ROWS if few_rows else Limit.BOUNDS

    @property
    def _width(self) -> float | None:
        """Return the distance of the bounds in the column's unit; None without bounds."""
        lattice = self.column.parts[0].aggregate.lattice
        return None if lattice is None else float((lattice.upper - lattice.lower) * lattice.step)

    def _contribution_factor(self, part: Measurement) -> float:
        """Return how many times larger the noise is than if a person had one row in one group.

        Selections are purely private, so their costs add up over the groups of a person, except for
        budgets that add up squares.
        """
        single = PrivacyUnit(self.query.unit.id, 1, 1)
        least = part.aggregate.sensitivity(single, self.query.neighbours, self.query.cells or 2)
        is_choice = part.aggregate.is_choice and not self.is_concentrated
        is_l1 = self.is_pure or is_choice
        return _norm(part.sensitivity, is_l1) / (_norm(least, is_l1) or 1.0)

    @property
    def limit_text(self) -> str:
        """Return in a few characters what limits the accuracy."""
        unit = self.query.unit
        groups = min(unit.max_groups, self.query.cells or unit.max_groups)
        limits = f"{groups:,} x {unit.max_rows_per_group:,}"
        if unit.limits_all_rows(groups):
            limits = f"{unit.max_rows:,} rows"
        return {
            Limit.BUDGET: f"budget: {100 * self.share:.2g} %",
            Limit.CONTRIBUTIONS: f"limits {limits}",
            Limit.BOUNDS: "wide bounds",
            Limit.ROWS: "few rows",
            Limit.NOTHING: "exact",
        }[self.limit]

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values."""
        return {
            "query": self.query.name,
            "column": self.column.name,
            "margin": None if self.margin is None else finite(self.margin),
            "confidence": float(self.confidence),
            "unit": self.unit,
            "ranks": self.ranks,
            "rows": self.rows if self.depends_on_rows else None,
            "mechanisms": list(self.mechanisms),
            "share_of_budget": finite(self.share),
            "limited_by": self.limit.value,
        }


def _norm(sensitivity: Sensitivity, is_l1: bool) -> float:
    """Return the L1 norm or the L2 norm of a sensitivity, in steps."""
    return float(sensitivity.l1) if is_l1 else math.sqrt(sensitivity.l2_squared)


def published_columns(
    plan: Plan, estimates: Mapping[tuple[str, str], float] = NO_ESTIMATES
) -> Iterator[PublishedColumn]:
    """Yield every published column of a plan, in declared order.

    `estimates` are the margins of columns of consistent tables, by table and column.
    """
    shares = _Shares(plan)
    for query in plan.queries:
        planned = {part.measurement.name: part for part in plan.of_query(query.name)}
        declared = query.table.size
        rows = EVENLY_SPREAD_ROWS
        if declared is not None:
            rows = max(1, declared // (query.cells or 1))
        for column in query.columns:
            parts = tuple(planned[part.name] for part in column.parts)
            yield PublishedColumn(
                query,
                column,
                parts,
                rows,
                declared is not None,
                shares.of_parts(parts),
                plan.budget.needs_pure_noise,
                plan.budget.needs_concentration,
                estimates.get((query.name, column.name)),
            )


class _Shares:
    """The shares of columns in the cost of a plan; each kind of noise is priced once."""

    def __init__(self, plan: Plan) -> None:
        self._budget, self._known = plan.budget, dict[object, float]()
        self._concentrated = plan.budget.needs_concentration
        whole = plan.guarantee.rho if self._concentrated else plan.guarantee.epsilon
        self._whole = whole or math.inf

    def of_parts(self, parts: Sequence[PlannedColumn]) -> float:
        """Return the factor by which the budget would be smaller for these columns alone.

        For a rho, it is the square root of the share of rho, so that errors grow by its inverse.
        """
        inputs = [part.accounting_input for part in parts if not part.measurement.exact]
        if not inputs:
            return 0.0
        kind = tuple((one.key, one.sensitivity) for one in inputs)
        if kind not in self._known:
            cost = self._budget.cost_of(inputs) / self._whole
            self._known[kind] = math.sqrt(cost) if self._concentrated else cost
        return min(1.0, self._known[kind])


def column_to_json(column: PlannedColumn) -> dict[str, Any]:
    """Return one planned column as JSON values, with its noise and its error."""
    return {
        **column.event.to_json(),
        "aggregate": column.measurement.aggregate.description,
        "cells": column.query.cells,
        "rows": "bounded" if column.is_bounded else "all",
        "step": plain_text(column.measurement.step),
        "unit": column.measurement.unit,
        "error_unit": column.measurement.error_unit,
        "chosen_by": column.chosen_by,
        "bias": column.bias,
        "expected_absolute_error": finite(column.mean_absolute_error),
        "standard_deviation": finite(column.standard_deviation),
        "margin_95": float(column.margin()),
    }
