"""The declaration of how a budget is divided among queries and columns."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from dprelease.schema.amounts import refuse_several_keys, require_above_zero
from dprelease.schema.field_types import NUMBER_SCHEMA, Exact, ShortForm
from dprelease.schema.model import Model


class ShareSpec(Model):
    """A part of the budget: by weight, or an absolute epsilon or rho."""

    weight: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    epsilon: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    rho: Annotated[Exact | None, AfterValidator(require_above_zero)] = None

    @model_validator(mode="after")
    def _refuse_several_keys(self) -> Self:
        """Refuse a share with more than one of `weight`, `epsilon` and `rho`."""
        refuse_several_keys(self, "weight", "epsilon", "rho")
        return self


def _expand_share(value: object) -> object:
    return {"weight": value} if isinstance(value, str | int | float) else value


Share = Annotated[ShareSpec, BeforeValidator(_expand_share), ShortForm(NUMBER_SCHEMA)]
