"""The part of a manifest on the ledger that paid for its release."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dprelease.schema.document_part import Part


class BudgetRecord(Part):
    """A budget in a ledger: an epsilon, possibly with a delta, or a rho.

    `rho_delta`: the part of the delta for outputs without a rho; missing if it is 0.
    """

    epsilon: str | None
    delta: str
    rho: str | None
    rho_delta: str | None = None


class RenewalRecord(Part):
    """The current period of a renewing budget, and what the renewal means for a person's risk."""

    table: str
    budget: BudgetRecord
    every: Literal["month", "year"]
    begins: str
    periods: int | None
    period: int
    from_: str = Field(alias="from")
    until: str
    words: str


class LedgerRecord(Part):
    """The entry of the ledger that paid for the release."""

    file: str
    reservation: str
    entry: int
    digest: str
    renewals: list[RenewalRecord] = Field(default_factory=list)
