"""What a ledger counts, as far as a plan has to know: `auto` takes least of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from dprelease.errors import LedgerError
from dprelease.privacy.accounting import pure_epsilon
from dprelease.privacy.budget import Budget, Variant
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import rho_of
from dprelease.query.resolve import Query
from dprelease.schema.mechanism import AUTO


class LedgerCost(StrEnum):
    """What a ledger counts for a release, beside what the release itself promises."""

    RHO = "rho"
    EPSILON = "epsilon"

    def size(self, vectors: Sequence[PricedVector], *, rough: bool) -> float:
        """Return the length of what is charged: errors of a law are about inverse to it.

        A scale that is twice as large costs half the epsilon, and a quarter of the rho.
        """
        if self is LedgerCost.RHO:
            return math.sqrt(rho_of(vectors, rough=rough))
        pure = pure_epsilon(vectors)
        return math.inf if pure is None else float(pure)


def beside(charged: LedgerCost | None, budget: Budget) -> LedgerCost | None:
    """Return what a ledger counts, unless the budget itself is in that."""
    same = {Variant.PURE: LedgerCost.EPSILON, Variant.ZERO_CONCENTRATED: LedgerCost.RHO}
    return None if charged is same.get(budget.variant) else charged


def counted_by(ledger: Path, queries: Sequence[Query], *, pure: bool) -> LedgerCost | None:
    """Return what a ledger counts for the tables of queries; None if nothing depends on it.

    Rho, where one of them has a budget in rho or in (epsilon, delta). Where the ledger can't be
    read, or has no budget for them, what it counts for releases of that kind: a run refuses such a
    ledger before it reads a row, and says why.
    """
    if all(m.mechanism.name != AUTO for query in queries for m in query.measurements):
        return None
    from dprelease.ledger.ledger import Ledger

    try:
        accounts = Ledger(ledger).state().accounts
    except LedgerError:
        accounts = {}
    names = {table.identity for query in queries for table in query.charged_tables}
    counted = {accounts[name].privacy_measure for name in names & accounts.keys()}
    if not counted:
        return None if pure else LedgerCost.RHO
    return LedgerCost.RHO if LedgerCost.RHO in counted else LedgerCost.EPSILON
