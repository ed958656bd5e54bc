"""Contribution limits that a release chooses privately, with a share of its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from dprelease.errors import DpReleaseError, Place, QueryError
from dprelease.numerics.rounding import plain_text
from dprelease.privacy.guarantee import Guarantee
from dprelease.schema.field_types import NUMBER_SCHEMA, ShortForm, Whole, refuse
from dprelease.schema.model import Model
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE
from dprelease.schema.release_parts.limits import Percentage

if TYPE_CHECKING:
    from dprelease.schema.load import Declared
    from dprelease.schema.release import BudgetSpec, QuerySpec, ReleaseSpec
    from dprelease.schema.yaml_text.reader import Document

LIMITS = ("max_groups", "max_rows_per_group")
"""The limits that can be chosen privately."""
TOTAL = "max_rows"
"""The limit of all rows of a person, which can only be declared, and also limits the others."""
HIGHEST_LIMIT = 1000
"""The highest limit that can be chosen privately."""

LEAST_PERSONS, MOST_PERSONS = Fraction(1, 2), Fraction(999, 1000)


class ChooseSpec(Model):
    """How a contribution limit is chosen privately, from 1 to `up_to`.

    The limit is about the smallest one that cuts off nothing from the share `persons` of the
    persons. `share`: the share of the budget of the release that the choice costs. Without `up_to`,
    the highest limit is the one that the table declares.
    """

    share: Percentage
    up_to: Annotated[Whole, Field(ge=2, le=HIGHEST_LIMIT)] | None = None
    persons: Percentage = Fraction(95, 100)

    @field_validator("share")
    @classmethod
    def _refuse_whole_budget(cls, share: Fraction) -> Fraction:
        """Refuse a share of nothing, or of the whole budget."""
        if not 0 < share < 1:
            refuse("DP-DECL-003", problem="it must be above 0 % and below 100 %")
        return share

    @field_validator("persons")
    @classmethod
    def _refuse_other_persons(cls, persons: Fraction) -> Fraction:
        """Refuse fewer than half of the persons, and all of them."""
        if not LEAST_PERSONS <= persons <= MOST_PERSONS:
            refuse("DP-DECL-003", problem="it must be at least 50 % and at most 99.9 %")
        return persons


class LimitSpec(Model):
    """A contribution limit of one query in place of that of its table.

    It is a number, or is chosen privately. A number alone stands for `value`. For queries of a
    `family`, and for the tables of one query with `consistent`, there is one limit for all of them.
    """

    value: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    choose: ChooseSpec | None = None

    @model_validator(mode="after")
    def _refuse_both_or_none(self) -> Self:
        """Refuse a number together with a choice, or neither."""
        if (self.value is None) == (self.choose is None):
            problem = "it must be a number, or a mapping such as {choose: {share: 5 %}}"
            refuse("DP-DECL-003", problem=problem)
        return self


def _expand_limit(value: object) -> object:
    """Return the mapping that a number stands for."""
    if value is None or isinstance(value, Mapping | LimitSpec):
        return value
    return {"value": value}


Limit = Annotated[LimitSpec | None, BeforeValidator(_expand_limit), ShortForm(NUMBER_SCHEMA)]


@dataclass(frozen=True, slots=True)
class LimitChoice:
    """One limit that is chosen privately: for one query, or for all queries of a family.

    `name`: the name of the choice, which is also that of its table and of its only column.
    `queries`: the queries whose limit it is.
    """

    name: str
    queries: tuple[str, ...]
    limit: str
    up_to: int
    share: Fraction
    persons: Fraction


@dataclass(frozen=True, slots=True)
class LimitChoices:
    """All limits that a release chooses privately, and the part of its budget for them."""

    limits: tuple[LimitChoice, ...]
    budget: BudgetSpec

    @property
    def share(self) -> Fraction:
        """The share of the budget of the release that all choices cost together."""
        return sum((one.share for one in self.limits), Fraction(0))

    def names_of(self, query: str) -> tuple[str, ...]:
        """Return the names of the choices for a declared query."""
        return tuple(one.name for one in self.limits if query in one.queries)


@dataclass(frozen=True, slots=True)
class ChosenLimits:
    """The limits that were chosen, by the name of the choice, and the release that chose them.

    `digest`: the digest of the manifest of this release. `files`: the SHA-256 of each of its files,
    with its manifest. `noise`: the record of the noise of each choice. `paid`: the record of the
    ledger entry that paid for it; None without a ledger. `folder`: where it lies.
    """

    values: Mapping[str, int]
    digest: str
    guarantee: Guarantee
    files: Mapping[str, str]
    noise: Mapping[str, Mapping[str, Any]]
    paid: Mapping[str, Any] | None
    folder: Path = field(compare=False)


def chosen_limits_of(spec: QuerySpec) -> tuple[str, ...]:
    """Return the names of the limits of a query that are chosen privately."""
    limits = {limit: getattr(spec, limit) for limit in LIMITS}
    return tuple(limit for limit, one in limits.items() if one is not None and one.choose)


def has_own_limit(spec: QuerySpec, limit: str) -> bool:
    """Return whether a query declares a number for a limit."""
    one = getattr(spec, limit)
    return one is not None and (limit == TOTAL or one.value is not None)


def highest_limit(spec: QuerySpec, limit: str, declared: int | None) -> int | None:
    """Return a limit of a query, from that of its table: for a choice, the highest one."""
    if limit == TOTAL:
        return spec.max_rows or declared
    one: LimitSpec | None = getattr(spec, limit)
    if one is None:
        return declared
    return one.value or (one.choose and one.choose.up_to) or declared


def split_choices(
    spec: ReleaseSpec, document: Document, tables: Mapping[str, Declared]
) -> tuple[ReleaseSpec, LimitChoices | None]:
    """Return the release without the budget of its private choices of limits, and these choices.

    A release that chooses limits privately is two releases, one after the other: a small one that
    publishes the limits, and the declared one with these limits. The returned release is the second
    one, with the highest limits and the rest of the budget. So whoever plans or runs it never
    spends more than the declared budget.

    Raises QueryError or Findings: DP-QUERY-016 for each limit that can't be chosen privately, or
    does not belong to a query.
    """
    from dprelease.errors import raise_all

    errors = [*_own_limit_errors(spec, document, tables)]
    if not any(chosen_limits_of(query) for query in spec.queries.values()):
        raise_all(errors)
        return spec, None
    limits: list[LimitChoice] = []
    for queries in spec.families.values():
        query = spec.queries[queries[0]]
        for limit in chosen_limits_of(query):
            choose = getattr(query, limit).choose
            place = document.place("queries", queries[0], limit)
            up_to = _highest_by_table(query, limit, tables[query.source])
            errors += (
                QueryError("DP-QUERY-016", place=place, limit=limit, reason=reason)
                for reason in _problems(spec, query, up_to, tables[query.source])
            )
            name = f"{limit}_{len(limits) + 1}"
            limits.append(
                LimitChoice(name, tuple(queries), limit, up_to, choose.share, choose.persons)
            )
    errors += _budget_errors(spec, limits, document.place("budget"))
    raise_all(errors)
    share = sum((one.share for one in limits), Fraction(0))
    choices = LimitChoices(tuple(limits), _part_of(spec.budget, share, is_choice=True))
    rest = _part_of(spec.budget, 1 - share)
    named = with_limits(spec, choices, {})
    return named.model_copy(update={"budget": rest}), choices


def _own_limit_errors(
    spec: ReleaseSpec, document: Document, tables: Mapping[str, Declared]
) -> Iterator[DpReleaseError]:
    """Yield an error for each number of a query that has no effect, or is declared twice."""
    for name, query in spec.queries.items():
        for limit in (one for one in (*LIMITS, TOTAL) if has_own_limit(query, one)):
            place, reason = document.place("queries", name, limit), ""
            if query.source in tables and tables[query.source].table.privacy_unit.id is None:
                reason = f"'{query.source}' declares no id, so that each row is one privacy unit"
            elif query.join is not None and getattr(query.join, limit) is not None:
                reason = "the join of the query declares it, too"
            if reason:
                yield QueryError("DP-QUERY-016", place=place, limit=limit, reason=reason)


def with_limits(spec: ReleaseSpec, choices: LimitChoices, values: Mapping[str, int]) -> ReleaseSpec:
    """Return a release with these values of the limits that it may choose, by name of the choice.

    Limits without a value are the highest ones.
    """
    queries = dict(spec.queries)
    for one in choices.limits:
        for name in one.queries:
            choose = getattr(queries[name], one.limit).choose
            changed = LimitSpec.model_construct(
                choose=choose.model_copy(update={"up_to": values.get(one.name, one.up_to)})
            )
            queries[name] = queries[name].model_copy(update={one.limit: changed})
    return spec.model_copy(update={"queries": queries})


def _highest_by_table(query: QuerySpec, limit: str, declared: Declared) -> int:
    """Return the highest limit that may be chosen: the declared one, or that of the table.

    Without both, it is the limit of all rows of a person, which limits groups as well.
    """
    own = _limit_by_table(query, limit, declared)
    return highest_limit(query, limit, own or _limit_by_table(query, TOTAL, declared) or 1) or 1


def _limit_by_table(query: QuerySpec, limit: str, declared: Declared) -> int | None:
    """Return the total of the query, or a limit of its join or its table; None without them."""
    if limit == TOTAL and query.max_rows is not None:
        return query.max_rows
    joined: int | None = None if query.join is None else getattr(query.join, limit)
    own: int | None = getattr(declared.table.privacy_unit, limit)
    return joined or own


def _part_of(budget: BudgetSpec, share: Fraction, *, is_choice: bool = False) -> BudgetSpec:
    """Return a share of a budget; delta belongs to the tables, because choices need none.

    With a rho, delta is only the one at which epsilon is reported.
    """
    changes: dict[str, object] = {}
    if budget.epsilon is not None:
        changes["epsilon"] = budget.epsilon * share
    if budget.rho is not None:
        changes["rho"] = budget.rho * share
    if is_choice:
        changes["tables"] = {}
        # The choice is an exponential mechanism, whose guarantee is pure.
        if budget.rho is None:
            changes["delta"] = Fraction(0)
    return budget.model_copy(update=changes)


def _problems(spec: ReleaseSpec, query: QuerySpec, up_to: int, declared: Declared) -> Iterator[str]:
    """Yield each reason why a limit of a query can't be chosen privately."""
    if declared.table.privacy_unit.id is None:
        yield (
            f"'{declared.table.name}' declares no id, so that each row is a privacy unit and has "
            "no limits; remove it"
        )
    if spec.federated is not None:
        yield "the parties of a federated release can't choose a limit together; declare a number"
    if spec.engine != DEFAULT_ENGINE:
        yield f"only the engine {DEFAULT_ENGINE} can do this; declare a number, or this engine"
    if query.private_keys is not None:
        yield "the groups of private keys are not known before; declare a number"
    if query.has_several_tables and query.consistent is None:
        yield (
            "the query has several tables, and limits apply to each of them separately; add "
            "`consistent: true`, so that they apply once"
        )
    if not 2 <= up_to <= HIGHEST_LIMIT:
        yield (
            f"`up_to`, or without it the limit of the table, must be from 2 to "
            f"{HIGHEST_LIMIT:,}, and is {up_to:,}; declare another `up_to`"
        )
    total = _limit_by_table(query, TOTAL, declared)
    if total is not None and up_to > total:
        yield (
            f"it may become {up_to:,}, although a person counts with at most {total:,} rows in all "
            f"groups (`{TOTAL}`), and so in no more groups; declare `up_to` of at most {total:,}"
        )


def _budget_errors(
    spec: ReleaseSpec, limits: list[LimitChoice], place: Place
) -> Iterator[DpReleaseError]:
    """Yield an error for each reason why a budget has no share for choices of limits."""
    budget, reasons = spec.budget, []
    if budget.epsilon is None and budget.rho is None:
        reasons.append("the budget has no epsilon and no rho of which they could be a share")
    if budget.spend == "least":
        reasons.append("with `spend: least`, the budget is not known before; remove `spend`")
    share = sum((one.share for one in limits), Fraction(0))
    if share >= 1:
        reasons.append(
            f"their shares add up to {plain_text(100 * share)} % of the budget; declare shares of "
            "less than 100 % together"
        )
    for reason in reasons:
        yield QueryError("DP-QUERY-016", place=place, limit="of the queries", reason=reason)
