"""Compare contribution limits by the rows and people that lose rows, and by the errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.tallies import TallyingEngine
from dprelease.numerics.lattice import LIMIT, Floats, Integers
from dprelease.numerics.rounding import finite
from dprelease.planning.notes.limit_choices import HIGHEST_LIMITS, limits_to_try, plan_with_limit
from dprelease.planning.plan import Plan
from dprelease.postprocess.derived_values import FRACTIONS, fractions_of
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.count import Count
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.release_parts.limit_choice import has_own_limit

# Compute how much contribution limits change the answers of a query, without noise.
#
# The engine runs the statements of the query itself. No other module of this package reads exact
# answers about cells.

ROWS = "rows of the cell"
MANY_GROUPS, MANY_ROWS = HIGHEST_LIMITS["max_groups"], HIGHEST_LIMITS["max_rows_per_group"]


@dataclass(frozen=True, slots=True, repr=False)
class Sums:
    """The exact answers of one query under some contribution limits.

    `rows` is the number of counted rows. `vectors` has the sums in each cell by column, in the unit
    of the column. `fractions` has the means, ratios, variances and standard deviations over all
    cells together, which are NaN without rows.
    """

    rows: int
    vectors: Mapping[str, Floats]
    fractions: Mapping[str, float]

    def mean_difference(self, unlimited: Sums, column: str) -> float:
        """Return the mean absolute difference between a column's cells here and in `unlimited`."""
        return float(np.abs(unlimited.vectors[column] - self.vectors[column]).mean())


def unlimited_sums(engine: QueryEngine, query: Query) -> Sums:
    """Return the exact answers of a query under limits that leave out nothing."""
    return sums_under_limits(engine, query, PrivacyUnit(query.unit.id, MANY_GROUPS, MANY_ROWS))


def sums_under_limits(engine: QueryEngine, query: Query, limits: PrivacyUnit) -> Sums:
    """Return the exact answers of a query under other contribution limits."""
    unit = query.unit if query.unit.id is None else limits
    measurements = [_with_sensitivity(m, query, unit) for m in query.measurements if m.is_vector]
    with_limits = replace(
        query, unit=unit, measurements=(*measurements, _row_count_measurement(query, unit))
    )
    exact = engine.run(with_limits)
    vectors = {
        m.name: exact.vector(m.name).astype(np.float64) * float(m.step) for m in measurements
    }
    totals = {m.name: _clamped_total(exact.vector(m.name)) for m in measurements}
    fractions = {
        column.name: float(fractions_of(column, totals)[0])
        for column in query.columns
        if column.form in FRACTIONS and {part.name for part in column.parts} <= totals.keys()
    }
    return Sums(int(exact.vector(ROWS).sum()), vectors, fractions)


def _clamped_total(vector: Integers) -> Integers:
    """Return the sum of all cells as a vector of one cell, clamped to the range of vectors."""
    # In Python's integers: a sum of cells within 2^62 each may overflow 64 bits.
    total = sum(vector.tolist())
    return np.array([min(max(total, -LIMIT), LIMIT)], dtype=np.int64)


def _with_sensitivity(measurement: Measurement, query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement with the sensitivity that belongs to the limits of `unit`."""
    cells = query.keys.size
    sensitivity = measurement.aggregate.sensitivity(unit, query.neighbours, cells)
    return replace(measurement, sensitivity=sensitivity)


def _row_count_measurement(query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement that counts the rows of each cell."""
    count = Count()
    sensitivity = count.sensitivity(unit, query.neighbours, query.keys.size)
    noise = MechanismSpec(name=AUTO)
    return Measurement(ROWS, count, sensitivity, "rows", noise, Fraction(1), ROWS)


@dataclass(frozen=True, slots=True)
class TriedLimit:
    """One tried value of one contribution limit, and its effect on one column of one table.

    `bound` is the name of the limit, `value` the tried value, and `declared` says whether it is the
    declared value. `cut_rows` is the share of rows that both contribution limits leave out. `cut`
    is the mean amount by which the limits change a cell. `noise` is the expected error of the noise
    at the same budget, and None if no noise fits the budget, or if the error is infinite.
    """

    query: str
    column: str
    unit: str
    bound: str
    value: int
    declared: bool
    cut_rows: float
    cut_people: float
    cut: float
    noise: float | None

    @property
    def error(self) -> float | None:
        """Return an upper bound of the mean error of a cell, due to left-out rows and noise."""
        return None if self.noise is None else self.cut + self.noise

    def to_json(self) -> dict[str, Any]:
        """Return the tried limit and its effect as JSON values."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return {**record, "error": self.error}


def try_limits(
    declaration: Declaration, declared_plan: Plan, engines: Mapping[str, TallyingEngine]
) -> Iterator[TriedLimit]:
    """Yield the effects of tried contribution limits, query by query.

    Three kinds of queries are left out: queries whose units have one row each, queries with
    non-public keys, and joins of tables with separate limits.
    """
    plans: dict[tuple[str, str, int], Plan | None] = {}
    for query in filter(_has_limits, declared_plan.queries):
        engine = engines[query.name]
        unlimited = unlimited_sums(engine, query)
        people = engine.contributions(query)
        for bound, most in HIGHEST_LIMITS.items():
            declared = getattr(query.unit, bound)
            if declared is None:
                continue
            space = query.finest or query.keys
            highest_useful = min(most, space.size) if bound == "max_groups" else most
            rows_at_last_limit = -1
            for value in limits_to_try(declared, highest_useful):
                # Queries of one table share limits, so they share the plan for each tried value.
                key = query.declared.table.name, bound, value
                if key not in plans:
                    plans[key] = declared_plan
                    if value != declared or _has_limits_by_query(declaration):
                        plans[key] = plan_with_limit(declaration, declared_plan, *key)
                unit = _with_limit(query.unit, bound, value)
                limited = sums_under_limits(engine, query, unit)
                if value > declared and limited.rows == rows_at_last_limit:
                    break  # a higher limit leaves in no more rows, and adds noise
                rows_at_last_limit = limited.rows
                tried = TriedLimit(
                    query=query.name,
                    column="",
                    unit="",
                    bound=bound,
                    value=value,
                    declared=value == declared,
                    cut_rows=1 - limited.rows / unlimited.rows if unlimited.rows else 0.0,
                    cut_people=people.share_above(unit),
                    cut=0.0,
                    noise=None,
                )
                yield from _effects_on_columns(query, tried, limited, unlimited, plans[key])


def _with_limit(unit: PrivacyUnit, bound: str, value: int) -> PrivacyUnit:
    """Return a privacy unit with another value of one contribution limit."""
    match bound:
        case "max_groups":
            return replace(unit, max_groups=value)
        case "max_rows":
            return replace(unit, max_rows=value)
    return replace(unit, max_rows_per_group=value)


def _has_limits(query: Query) -> bool:
    """Return whether the contribution limits of a query can be tried one by one."""
    by_unit = query.join is not None and query.join.by_unit
    return query.unit.id is not None and query.private is None and not by_unit


def _has_limits_by_query(declaration: Declaration) -> bool:
    """Return whether a release chooses limits, or its queries declare limits."""
    queries = declaration.spec.queries.values()
    own = any(has_own_limit(one, limit) for one in queries for limit in HIGHEST_LIMITS)
    return own or declaration.choices is not None


def _effects_on_columns(
    query: Query, tried: TriedLimit, limited: Sums, unlimited: Sums, plan: Plan | None
) -> Iterator[TriedLimit]:
    errors: dict[str, float | None] = {}
    if plan is not None:
        planned = plan.of_query(query.name)
        errors = {c.measurement.name: finite(c.mean_absolute_error) for c in planned}
    for measurement in query.measurements:
        if measurement.name in limited.vectors:
            yield replace(
                tried,
                column=measurement.name,
                unit=measurement.unit,
                cut=limited.mean_difference(unlimited, measurement.name),
                noise=errors.get(measurement.name),
            )
