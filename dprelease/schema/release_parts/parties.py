"""Federated releases as declared: how many parties, and how many of them are counted on."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from dprelease.schema.field_types import Whole, refuse
from dprelease.schema.model import Model


class FederatedSpec(Model):
    """Noise that several parties add up, each over its own rows.

    `honest`: how many of them the budget has to hold for, if the others add no noise or tell
    theirs; all without it. Messages are summed so that nobody sees a single one.
    """

    parties: Annotated[Whole, Field(ge=2, le=10**6)]
    honest: Annotated[Whole, Field(ge=1, le=10**6)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.least > self.parties:
            refuse("DP-DECL-003", problem="there are no more honest parties than parties")
        return self

    @property
    def least(self) -> int:
        """Return the number of honest parties that the budget has to hold for."""
        return self.honest or self.parties
