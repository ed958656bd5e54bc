"""The measure in which a ledger counts, which `auto` minimizes."""

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
    """The ledger's measure for a release, in addition to the guarantee of the release itself."""

    RHO = "rho"
    EPSILON = "epsilon"

    def size(self, vectors: Sequence[PricedVector], *, rough: bool) -> float:
        """Return the size of the charge; the error of a mechanism is about inverse to it.

        Doubling a scale halves the epsilon, and quarters the rho.
        """
        if self is LedgerCost.RHO:
            return math.sqrt(rho_of(vectors, rough=rough))
        pure = pure_epsilon(vectors)
        return math.inf if pure is None else float(pure)


def extra_ledger_cost(charged: LedgerCost | None, budget: Budget) -> LedgerCost | None:
    """Return the ledger's measure, unless the budget itself has that measure."""
    same = {Variant.PURE: LedgerCost.EPSILON, Variant.ZERO_CONCENTRATED: LedgerCost.RHO}
    return None if charged is same.get(budget.variant) else charged


def counted_by(ledger: Path, queries: Sequence[Query], *, pure: bool) -> LedgerCost | None:
    """Return the ledger's measure for the tables of queries; None if nothing depends on it.

    Rho, if one of the tables has a budget in rho or in (epsilon, delta). If the ledger can't be
    read, or has no budget for the tables, the usual measure for such releases: a run refuses that
    ledger before it reads a row, and reports why.
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
