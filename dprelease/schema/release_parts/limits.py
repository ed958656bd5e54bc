"""Limits of a release: sizes of its plan, quality classes, and rules that leave cells empty."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from dprelease.schema.amounts import fraction_or_percentage
from dprelease.schema.field_types import NUMBER_SCHEMA, Exact, ShortForm, Whole, refuse, to_bool
from dprelease.schema.model import Model


class Limits(Model):
    """Limits above which a plan is refused."""

    max_cells: Annotated[Whole, Field(ge=1, le=10**11)] = 10_000_000
    max_columns: Annotated[Whole, Field(ge=1, le=10**6)] = 10_000


Percentage = Annotated[
    Exact,
    BeforeValidator(fraction_or_percentage),
    WithJsonSchema({"type": ["string", "number"], "description": "such as 30 %"}),
]


class SuppressionSpec(Model):
    """Which cells are left empty: those with fewer `people`, or with a smaller noisy `value`.

    `people` compares a noisy count of people in the same cell; a number alone stands for `value`.
    """

    people: Exact | None = None
    value: Exact | None = None

    @model_validator(mode="after")
    def _refuse_both_or_none(self) -> Self:
        """Refuse a rule with both limits, or with none."""
        if (self.people is None) == (self.value is None):
            refuse("DP-DECL-003", problem="it must be a number, or a mapping such as {people: 10}")
        return self


def _expand_suppression(value: object) -> object:
    """Return the mapping that a number stands for."""
    if value is None or isinstance(value, Mapping | SuppressionSpec):
        return value
    return {"value": value}


Suppression = Annotated[
    SuppressionSpec | None, BeforeValidator(_expand_suppression), ShortForm(NUMBER_SCHEMA)
]


QUALITY_LIMITS = (Fraction(5, 100), Fraction(15, 100), Fraction(30, 100))
"""Largest margins of error of the quality classes A, B and C, as fractions of the value."""


class QualitySpec(Model):
    """The quality classes of published values: A, B and C have a margin of at most `limits`.

    The limits are shares of the value. `quality: false` publishes no quality columns.
    """

    limits: Annotated[tuple[Percentage, ...], Field(min_length=3, max_length=3)] = QUALITY_LIMITS

    @field_validator("limits")
    @classmethod
    def _refuse_other_order(cls, limits: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        """Refuse limits that are not above 0 or do not ascend."""
        if any(low >= high for low, high in pairwise((Fraction(0), *limits))):
            refuse("DP-DECL-003", problem="the three limits must be above 0 and ascend")
        return limits


def _expand_quality(value: object) -> object:
    """Return the mapping that `true` stands for, and None for `false`."""
    if isinstance(value, bool) or value in ("true", "false"):
        return {} if to_bool(value) else None
    if not isinstance(value, Mapping | QualitySpec):
        refuse("DP-DECL-003", problem="it must be true, false or a mapping with `limits`")
    return value


Quality = Annotated[
    QualitySpec | None, BeforeValidator(_expand_quality), ShortForm({"type": "boolean"})
]


def limits_of(quality: QualitySpec | None) -> tuple[Fraction, ...]:
    """Return the declared limits of the quality classes; empty if none are published."""
    return () if quality is None else quality.limits
