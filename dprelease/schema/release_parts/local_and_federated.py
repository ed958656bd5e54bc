"""Releases without a central table: records published one by one, and federated releases."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dprelease.schema.amounts import Share, ShareSpec, refuse_several_keys, require_above_zero
from dprelease.schema.field_types import TEXT_SCHEMA, Exact, ShortForm, Text, Whole, refuse, to_text
from dprelease.schema.localized_text import Decimals, Documented
from dprelease.schema.mechanism import Mechanism
from dprelease.schema.model import Model


class RecordColumnSpec(Documented):
    """One column of records that are noised one by one."""

    mechanism: Mechanism | None = None
    weight: Annotated[Exact, AfterValidator(require_above_zero)] = Fraction(1)
    epsilon: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    rho: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    decimals: Decimals | None = None

    @model_validator(mode="after")
    def _refuse_several_keys(self) -> Self:
        """Refuse a column with both an epsilon and a rho."""
        refuse_several_keys(self, "epsilon", "rho")
        return self


def _expand_column_list(value: object) -> object:
    """Expand a list of column names to a mapping without options."""
    if isinstance(value, list):
        if len({str(name) for name in value}) < len(value):
            refuse("DP-DECL-003", problem="the same column is listed twice")
        return {to_text(name): {} for name in value}
    return value


class RecordsSpec(Documented):
    """Records of one table to publish one by one: only declared columns, each with noise."""

    source: Text = Field(alias="from")
    columns: Annotated[
        dict[Text, RecordColumnSpec],
        BeforeValidator(_expand_column_list),
        Field(min_length=1),
        ShortForm({"type": "array", "items": TEXT_SCHEMA}),
    ]
    share: Share = ShareSpec()


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
