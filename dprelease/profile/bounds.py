"""Compare contribution limits: the rows that each limit leaves out, and the resulting error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dprelease.errors import DpReleaseError
from dprelease.exact.engine_api import Answering
from dprelease.numerics.rounding import finite
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.profile.exact_sums import (
    MANY_GROUPS,
    MANY_ROWS,
    Sums,
    bounds_to_try,
    sums_under_bounds,
)
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration

BOUNDS = {"max_groups": MANY_GROUPS, "max_rows_per_group": MANY_ROWS}


@dataclass(frozen=True, slots=True)
class TriedBound:
    """One contribution limit with a value to try, and its effect on one column of one table.

    `cut_rows` is the share of rows that both contribution limits leave out. `cut` is the mean
    amount by which the limits lower a cell. `noise` is the expected error of the noise at the same
    budget; None if no noise fits the budget, or if the error is infinite.
    """

    query: str
    column: str
    unit: str
    bound: str
    value: int
    declared: bool
    cut_rows: float
    cut: float
    noise: float | None

    @property
    def error(self) -> float | None:
        """Return an upper bound of the mean error of a cell, from left-out rows and noise."""
        return None if self.noise is None else self.cut + self.noise

    def to_json(self) -> dict[str, Any]:
        """Return the tried limit and its effect as JSON values."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return {**record, "error": self.error}


def bounds_tried(
    declaration: Declaration, queries: Sequence[Query], engines: Mapping[str, Answering]
) -> Iterator[TriedBound]:
    """Yield the effect of other limits, query by query.

    These queries are left out: queries whose units have one row each, queries with non-public keys,
    and joins of tables with separate limits.
    """
    with_bounds = [query for query in queries if _has_bounds(query)]
    plans: dict[tuple[str, str, int], Plan | None] = {}
    for query in with_bounds:
        engine = engines[query.name]
        unlimited = sums_under_bounds(engine, query, MANY_GROUPS, MANY_ROWS)
        for bound, most in BOUNDS.items():
            declared = getattr(query.unit, bound)
            space = query.finest or query.keys
            useful = min(most, space.size) if bound == "max_groups" else most
            for value in bounds_to_try(declared, useful):
                key = query.declared.table.name, bound, value
                if key not in plans:
                    plans[key] = _plan(_with_bound(declaration, *key))
                pair = {**{name: getattr(query.unit, name) for name in BOUNDS}, bound: value}
                limited = sums_under_bounds(
                    engine, query, pair["max_groups"], pair["max_rows_per_group"]
                )
                yield from _compare_bound(
                    query, bound, value, value == declared, limited, unlimited, plans[key]
                )


def _has_bounds(query: Query) -> bool:
    by_unit = query.join is not None and query.join.by_unit
    return query.unit.id is not None and query.private is None and not by_unit


def _compare_bound(
    query: Query,
    bound: str,
    value: int,
    declared: bool,
    limited: Sums,
    unlimited: Sums,
    plan: Plan | None,
) -> Iterator[TriedBound]:
    errors: dict[str, float | None] = {}
    if plan is not None:
        planned = plan.of_query(query.name)
        errors = {c.measurement.name: finite(c.mean_absolute_error) for c in planned}
    lost = 1 - limited.rows / unlimited.rows if unlimited.rows else 0.0
    for measurement in query.measurements:
        if measurement.name in limited.vectors:
            yield TriedBound(
                query=query.name,
                column=measurement.name,
                unit=measurement.unit,
                bound=bound,
                value=value,
                declared=declared,
                cut_rows=lost,
                cut=limited.cut(unlimited, measurement.name),
                noise=errors.get(measurement.name),
            )


def _with_bound(declaration: Declaration, table: str, bound: str, value: int) -> Declaration:
    """Return the declaration with one changed contribution limit of one table."""
    declared = declaration.tables[table]
    unit = declared.table.privacy_unit.model_copy(update={bound: value})
    changed = replace(declared, table=declared.table.model_copy(update={"privacy_unit": unit}))
    return replace(declaration, tables={**declaration.tables, table: changed})


def _plan(declaration: Declaration) -> Plan | None:
    try:
        return prepare(declaration)[1]
    except DpReleaseError:  # no noise fits the budget under this limit
        return None
