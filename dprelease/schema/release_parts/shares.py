"""The declared division of a budget."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from dprelease.schema.amounts import above_zero, at_most_one
from dprelease.schema.field_types import NUMBER_SCHEMA, Exact, ShortForm
from dprelease.schema.model import Model


class ShareSpec(Model):
    """A part of the budget: by weight, or an absolute epsilon or rho."""

    weight: Annotated[Exact | None, AfterValidator(above_zero)] = None
    epsilon: Annotated[Exact | None, AfterValidator(above_zero)] = None
    rho: Annotated[Exact | None, AfterValidator(above_zero)] = None

    @model_validator(mode="after")
    def _at_most_one(self) -> Self:
        at_most_one(self, "weight", "epsilon", "rho")
        return self


def _short_share(value: object) -> object:
    return {"weight": value} if isinstance(value, str | int | float) else value


Share = Annotated[ShareSpec, BeforeValidator(_short_share), ShortForm(NUMBER_SCHEMA)]
