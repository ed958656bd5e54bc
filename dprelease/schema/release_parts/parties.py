"""The declaration of federated releases: the number of parties, and of honest parties."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from dprelease.schema.field_types import Whole, refuse
from dprelease.schema.model import Model


class FederatedSpec(Model):
    """Several parties add noise, each over its own rows.

    `honest`: the number of honest parties for which the budget has to hold, if the others add no
    noise or reveal theirs; by default all. Messages are summed so that nobody sees a single one.
    """

    parties: Annotated[Whole, Field(ge=2, le=10**6)]
    honest: Annotated[Whole, Field(ge=1, le=10**6)] | None = None

    @model_validator(mode="after")
    def _refuse_too_many_honest(self) -> Self:
        """Refuse more honest parties than there are parties."""
        if self.least > self.parties:
            refuse("DP-DECL-003", problem="there are more honest parties than parties")
        return self

    @property
    def least(self) -> int:
        """The minimum number of honest parties, for which the budget has to hold."""
        return self.honest or self.parties
