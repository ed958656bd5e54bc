"""Limits of a release: sizes of its plan, and margins of error of its quality classes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator

from dprelease.schema.amounts import fraction_or_percentage
from dprelease.schema.field_types import Exact, ShortForm, Whole, refuse, to_bool
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
