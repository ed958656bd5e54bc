"""Release files: budget, queries, mechanisms and output."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from dprelease.privacy.unit import Neighbours
from dprelease.schema.model import Model, refuse_twins
from dprelease.schema.values import (
    TEXT_SCHEMA,
    Exact,
    Name,
    ShortForm,
    Text,
    Whole,
    refuse,
    to_bool,
    to_fraction,
    to_text,
)

AUTO = "auto"
DEFAULT_CONFIDENCE = Fraction(95, 100)


class BudgetSpec(Model):
    """What the whole release may spend; delta 0 asks for a pure guarantee."""

    epsilon: Exact
    delta: Exact = Fraction(0)
    neighbours: Neighbours = Neighbours.ADD_REMOVE


class MechanismSpec(Model):
    """A mechanism by name, and its shape; `auto` leaves the choice to the plan.

    Beside `name`, each mechanism has its own keys, which the plan checks: `dprelease mechanisms`
    lists them.
    """

    model_config = ConfigDict(extra="allow")

    name: Text

    @model_validator(mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return {key: _word(found) for key, found in value.items()}
        return value

    @property
    def shape(self) -> dict[str, str]:
        """Return what is declared beside the name, as texts."""
        return {key: str(value) for key, value in (self.model_extra or {}).items()}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return to_text(value)


def _short_mechanism(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Mechanism = Annotated[MechanismSpec, BeforeValidator(_short_mechanism), ShortForm(TEXT_SCHEMA)]


def _confidence(value: object) -> object:
    if isinstance(value, bool) or value in ("true", "false"):
        return DEFAULT_CONFIDENCE if to_bool(value) else None
    found = to_fraction(value)
    if not Fraction(1, 2) <= found <= Fraction(999_999, 1_000_000):
        refuse("DP-RELEASE-005")
    return found


class ColumnSpec(Model):
    """One column to publish: exactly one aggregate, and how its noise is made."""

    count: Text | None = None
    sum: Text | None = None
    count_distinct: Text | None = None
    mechanism: Mechanism | None = None
    weight: Exact = Fraction(1)
    margin: Annotated[
        Exact | None, BeforeValidator(_confidence), ShortForm({"type": "boolean"})
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        asked = [name for name in (self.count, self.sum, self.count_distinct) if name is not None]
        if len(asked) != 1:
            refuse("DP-RELEASE-002")
        return self

    @field_validator("weight")
    @classmethod
    def _positive(cls, weight: Fraction) -> Fraction:
        if weight <= 0:
            refuse("DP-RELEASE-004")
        return weight


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


class QuerySpec(Model):
    """One table to publish: filtered rows of one source, grouped by public keys."""

    source: Text = Field(alias="from")
    where: Text | None = None
    group_by: Annotated[
        tuple[Text, ...], BeforeValidator(_one_or_many), ShortForm(TEXT_SCHEMA)
    ] = ()
    columns: Annotated[dict[Name, ColumnSpec], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        margins = [f"{name}_moe" for name, spec in self.columns.items() if spec.margin]
        taken = [*self.group_by, *margins]
        for name in self.columns:
            if name in taken:
                refuse("DP-RELEASE-007", name=name)
        refuse_twins([*self.columns, *dict.fromkeys(taken)])
        return self


class Limits(Model):
    """What a plan may grow to before it is refused."""

    max_cells: Annotated[Whole, Field(ge=1, le=10**9)] = 10_000_000
    max_columns: Annotated[Whole, Field(ge=1, le=10**6)] = 10_000


class ReleaseSpec(Model):
    """One release: everything that is published together, under one budget."""

    title: Text
    tables: Annotated[tuple[Text, ...], Field(min_length=1)]
    budget: BudgetSpec
    mechanism: Mechanism = MechanismSpec(name=AUTO)
    queries: Annotated[dict[Name, QuerySpec], Field(min_length=1)]
    output: Text
    limits: Limits = Limits()
    engine: Literal["duckdb"] = "duckdb"

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_twins(self.queries)
        return self

    @field_validator("output")
    @classmethod
    def _inside(cls, output: str) -> str:
        parts = output.replace("\\", "/").split("/")
        if ".." in parts or parts[0] in ("", "~") or ":" in output or parts in (["."], [""]):
            refuse("DP-RELEASE-003")
        return output

    @field_validator("budget", mode="before")
    @classmethod
    def _no_other_definitions(cls, budget: object) -> object:
        if isinstance(budget, Mapping) and "rho" in budget:
            refuse("DP-DECL-003", problem="a budget is an epsilon, with or without a delta")
        return budget
