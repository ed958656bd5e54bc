"""Compare contribution limits by the rows and people that lose rows, and by the errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dprelease.exact.tallies import TallyingEngine
from dprelease.numerics.rounding import finite
from dprelease.planning.notes.limit_choices import HIGHEST_LIMITS, limits_to_try, plan_with_limit
from dprelease.planning.plan import Plan
from dprelease.privacy.unit import PrivacyUnit
from dprelease.profile.exact_sums import Sums, sums_under_limits, unlimited_sums
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.limit_choice import has_own_limit


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
