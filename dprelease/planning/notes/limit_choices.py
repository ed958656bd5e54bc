"""The noise for other contribution limits than the declared ones, and limits chosen privately."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from dprelease.errors import DpReleaseError
from dprelease.errors.printable import count_text, one_line
from dprelease.numerics.rounding import finite, plain_text
from dprelease.planning.bounded_words import bounded_groups
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.release import BudgetSpec, ReleaseSpec
from dprelease.schema.release_parts.limit_choice import LimitChoice, has_own_limit, with_limits

# What a plan says about contribution limits that the release chooses privately.


@dataclass(frozen=True, slots=True)
class PrivateLimit:
    """The private choice of one limit. `error`: how many persons it may miss its share by."""

    choice: LimitChoice
    error: int

    @property
    def least_persons(self) -> int:
        """The number of persons above which no limit is chosen that is higher than needed.

        Of n persons, the limits above the highest number of any person miss the quantile by
        n (1 - persons). If this is more than the error, none of them is chosen, at the same
        confidence.
        """
        return math.ceil(self.error / (1 - self.choice.persons))

    @property
    def words(self) -> str:
        """Sentences on the choice, its error, and the data for which it is useful."""
        one, errors = self.choice, count_text(self.error, "person", "persons")
        return (
            f"{one.limit} of {one_line(', '.join(one.queries))}: a number from 1 to "
            f"{one.up_to:,} that is enough for about {plain_text(100 * one.persons)} % of the "
            f"persons (to within {errors}, with 95 % confidence). This is useful for at least "
            f"{self.least_persons:,} persons. For fewer, it may be any number up to "
            f"{one.up_to:,}, whatever the persons need: declare a number, or a larger `share`."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON values."""
        return {
            "queries": list(self.choice.queries),
            "limit": self.choice.limit,
            "up_to": self.choice.up_to,
            "share": plain_text(self.choice.share),
            "persons": plain_text(self.choice.persons),
            "error_in_persons": self.error,
            "least_persons": self.least_persons,
        }


def private_limits(declaration: Declaration, plan: Plan) -> list[PrivateLimit]:
    """Return the private choices of limits of a release, with their errors."""
    found = []
    for one in () if declaration.choices is None else declaration.choices.limits:
        columns = () if plan.limits is None else plan.limits.of_query(one.name)
        found += [PrivateLimit(one, math.ceil(column.margin())) for column in columns]
    return found


def private_limit_texts(declaration: Declaration, plan: Plan) -> list[str]:
    """Return texts on private choices of limits, if any: on their budget, and on each of them."""
    choices = declaration.choices
    if choices is None:
        return []
    before, rest = _amount_text(choices.budget), _amount_text(declaration.spec.budget)
    share = (
        f"A run first chooses limits privately, for {plain_text(100 * choices.share)} % of the "
        f"budget ({before}). For the tables, {rest} remains; their margins are those of the "
        "highest limits."
    )
    return [share, *(one.words for one in private_limits(declaration, plan))]


def _amount_text(budget: BudgetSpec) -> str:
    """Return the epsilon or the rho of a budget."""
    if budget.rho is not None:
        return f"rho {float(budget.rho):.6g}"
    return f"epsilon {float(budget.epsilon or 0):.6g}"


HIGHEST_LIMITS = {"max_groups": 10**6, "max_rows_per_group": 10**9, "max_rows": 10**9}
"""The contribution limits, and the highest value of each that can be declared."""

MOST_COLUMNS = 24
"""Releases with more columns are not planned again for other limits, because it would be slow."""

TOO_MANY_COLUMNS = (
    f"Margins of error for other contribution limits are shown for at most {MOST_COLUMNS} columns: "
    "to see them, declare another limit, or fewer queries, and plan again."
)

LEAST_PART, LARGEST_MULTIPLE = 20, 8
"""Tried limits lie between this part and this multiple of the declared one, apart from 1."""


@dataclass(frozen=True, slots=True)
class NoiseByLimit:
    """The noise of one column for several values of one contribution limit.

    `source`: the table that declares the limit. `limit`: the name of the limit. `column`: the
    column as query.column. `margins`: the margin of error of a cell for each of `values`, at
    `confidence` and at the same budget; None where no noise fits the budget.
    """

    source: str
    limit: str
    declared: int
    column: str
    unit: str
    confidence: float
    values: tuple[int, ...]
    margins: tuple[float | None, ...]
    what: str = "declared"
    """What `declared` is: the declared limit, or the highest one of a private choice."""

    def to_json(self) -> dict[str, Any]:
        """Return the noise by limit as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """The margin of error of one column, its confidence, and its unit."""

    margin: float | None
    confidence: float
    unit: str


def noise_by_limit(declaration: Declaration, plan: Plan) -> Iterator[NoiseByLimit]:
    """Yield the noise of all columns for other limits, from plans with these limits.

    Columns whose noise does not depend on a limit are left out, and releases with many columns. The
    limits are those of each source, and those that the release may choose privately.
    """
    sources: dict[str, list[Query]] = {}
    for query in plan.queries:
        if query.unit.id is not None and not has_too_many_columns(plan):
            sources.setdefault(query.declared.table.name, []).append(query)
    for source, queries in sources.items():
        for limit, highest in HIGHEST_LIMITS.items():
            declared = getattr(declaration.tables[source].table.unit, limit)
            others = _tables_with_own_limit(declaration.spec, source, limit)
            names = {query.name for query in queries if limit not in query.chosen_limits} - others
            if declared is None or not names:
                continue
            most = highest
            if limit == "max_groups":
                most = max(bounded_groups(query) or highest for query in queries)
            values = limits_to_try(declared, most)
            plans = [
                plan
                if value == declared
                else plan_with_limit(declaration, plan, source, limit, value)
                for value in values
            ]
            yield from _noises(source, limit, declared, values, plans, plan, names)
    if not has_too_many_columns(plan):
        yield from _noise_by_choice(declaration, plan)


def _tables_with_own_limit(spec: ReleaseSpec, source: str, limit: str) -> set[str]:
    """Return the names of the tables of a source whose queries declare a limit of their own."""
    queries = [(name, one) for name, one in spec.queries.items() if one.source == source]
    return {
        table for name, one in queries if has_own_limit(one, limit) for table in one.tables(name)
    }


def _noises(
    source: str,
    limit: str,
    declared: int,
    values: tuple[int, ...],
    plans: Sequence[Plan | None],
    plan: Plan,
    names: set[str],
) -> Iterator[NoiseByLimit]:
    """Yield the noise of each column of some tables whose noise depends on a limit."""
    noises = [{} if one is None else _noise_by_column(one, names) for one in plans]
    for column, noise in _noise_by_column(plan, names).items():
        margins = tuple(found[column].margin if column in found else None for found in noises)
        if len(set(margins)) > 1:
            yield NoiseByLimit(
                source, limit, declared, column, noise.unit, noise.confidence, values, margins
            )


def _noise_by_choice(declaration: Declaration, plan: Plan) -> Iterator[NoiseByLimit]:
    """Yield the noise of all columns for the limits that a release may choose privately."""
    choices = declaration.choices
    if choices is None:
        return
    for one in choices.limits:
        plans, values = [], limits_to_try(one.up_to, one.up_to)
        for value in values:
            spec = with_limits(declaration.spec, choices, {one.name: value})
            plans.append(_plan_or_none(replace(declaration, spec=spec), plan))
        names = {
            name for query in one.queries for name in declaration.spec.queries[query].tables(query)
        }
        source = ", ".join(one.queries)
        for noise in _noises(source, one.limit, one.up_to, values, plans, plan, names):
            yield replace(noise, what="highest")


def has_too_many_columns(plan: Plan) -> bool:
    """Return whether a plan has limits, but too many columns to be made again for others."""
    limited = any(query.unit.id is not None for query in plan.queries)
    return limited and len(plan.columns) > MOST_COLUMNS


def limits_to_try(declared: int, most: int) -> tuple[int, ...]:
    """Return the declared limit, and those of 1, 2, 5, 10, 20, ... around it.

    Limits above `most` have the same effect as `most`, and are left out.
    """
    low, high = declared / LEAST_PART, min(LARGEST_MULTIPLE * declared, most)
    series = (digit * 10**power for power in range(10) for digit in (1, 2, 5))
    return tuple(sorted({1, declared, *(value for value in series if low <= value <= high)}))


def plan_with_limit(
    declaration: Declaration, plan: Plan, source: str, limit: str, value: int
) -> Plan | None:
    """Return a plan with another value of one limit of a table; None if no noise fits.

    If `auto` selected one mechanism for all columns of `plan`, it is used again. Where queries of
    the table declare or choose this limit, it has this value, too.
    """
    choices, spec = declaration.choices, declaration.spec
    if choices is not None:
        alike = [one for one in choices.limits if one.limit == limit]
        alike = [one for one in alike if spec.queries[one.queries[0]].source == source]
        spec = with_limits(spec, choices, dict.fromkeys([one.name for one in alike], value))
    spec = _without_own_limits(spec, source, limit)
    declared = declaration.tables[source]
    unit = declared.table.privacy_unit.model_copy(update={limit: value})
    changed = replace(declared, table=declared.table.model_copy(update={"privacy_unit": unit}))
    tables = {**declaration.tables, source: changed}
    return _plan_or_none(replace(declaration, spec=spec, tables=tables), plan)


def _without_own_limits(spec: ReleaseSpec, source: str, limit: str) -> ReleaseSpec:
    """Return a release whose queries of a source declare no number for a limit."""
    queries = {
        name: one.model_copy(update={limit: None})
        if one.source == source and has_own_limit(one, limit)
        else one
        for name, one in spec.queries.items()
    }
    return spec.model_copy(update={"queries": queries})


def _plan_or_none(declaration: Declaration, plan: Plan) -> Plan | None:
    """Return the plan of a declaration; None if no noise fits its budget.

    The search of a mechanism takes most of the time of a plan, so the one of `plan` comes first.
    """
    for one in (_with_mechanism_of(plan, declaration), declaration):
        with suppress(DpReleaseError):  # no noise fits the budget under this limit
            return prepare(one)[1]
    return None


def _with_mechanism_of(plan: Plan, declaration: Declaration) -> Declaration:
    """Return a declaration with the mechanism that `auto` selected, if it is the same everywhere.

    Its parameters stay open.
    """
    spec, auto = declaration.spec, MechanismSpec(name=AUTO)
    names = {c.mechanism.name for c in plan.noisy_columns if c.measurement.mechanism == auto}
    if spec.mechanism != auto or len(names) != 1:
        return declaration
    selected = spec.model_copy(update={"mechanism": MechanismSpec(name=names.pop())})
    return replace(declaration, spec=selected)


def _noise_by_column(plan: Plan, names: set[str]) -> dict[str, ColumnNoise]:
    """Return the noise of the columns of some queries; of consistent tables, that of estimates.

    A column of consistent tables has the largest margin of its estimates in all tables.
    """
    found = {}
    for column in plan.noisy_columns:
        query, measurement = column.query, column.measurement
        if query.name in names and query.finest is None:
            confidence = float(column.confidence)
            found[f"{query.name}.{measurement.name}"] = ColumnNoise(
                finite(float(column.margin(confidence))), confidence, measurement.error_unit
            )
    return found | _noise_of_families(plan, names)


def _noise_of_families(plan: Plan, names: set[str]) -> dict[str, ColumnNoise]:
    """Return the largest margin of each column of consistent tables; empty if there are none."""
    if not any(query.finest is not None and query.name in names for query in plan.queries):
        return {}
    from dprelease.planning.families.family_errors import consistent_errors  # slow to import

    found = {}
    for errors in consistent_errors(plan):
        if errors.agreed.shape.placed[0].name in names:
            largest = max((row.margin.greatest for row in errors.rows), default=0.0)
            found[f"{errors.family}.{errors.agreed.name}"] = ColumnNoise(
                finite(largest * float(errors.agreed.step)),
                float(errors.agreed.confidence),
                errors.agreed.measurement.error_unit,
            )
    return found
