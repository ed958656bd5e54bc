"""The privacy measure in which a ledger counts costs, and which `auto` minimizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from dprelease.errors import LedgerError
from dprelease.privacy.accounting import pure_epsilon
from dprelease.privacy.budget import Budget, Variant
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import approximate_rho_of
from dprelease.query.resolve import Query
from dprelease.schema.mechanism import AUTO


class LedgerCost(StrEnum):
    """The measure in which a ledger charges a release, which may differ from its guarantee."""

    RHO = "rho"
    EPSILON = "epsilon"

    def charge_size(self, vectors: Sequence[PricedVector], *, rough: bool) -> float:
        """Return the size of the charge, to which the error of noise is about inversely related.

        Doubling a scale halves the epsilon, and divides the rho by four, so its root is returned.
        """
        if self is LedgerCost.RHO:
            return math.sqrt(approximate_rho_of(vectors, rough=rough)[0])
        pure = pure_epsilon(vectors)
        return math.inf if pure is None else float(pure)


def extra_ledger_cost(charged: LedgerCost | None, budget: Budget) -> LedgerCost | None:
    """Return the ledger's measure; None if the budget has the same measure."""
    same = {Variant.PURE: LedgerCost.EPSILON, Variant.ZERO_CONCENTRATED: LedgerCost.RHO}
    return None if charged is same.get(budget.variant) else charged


def ledger_cost_of(ledger: Path, queries: Sequence[Query], *, pure: bool) -> LedgerCost | None:
    """Return the ledger's measure for the tables of queries; None if nothing depends on it.

    The measure is rho if one of the tables has a budget in rho or in (epsilon, delta). If the
    ledger can't be read, or has no budget for the tables, the result is the usual measure for such
    releases: a run rejects that ledger with an error before it reads a row.
    """
    if all(m.mechanism.name != AUTO for query in queries for m in query.measurements):
        return None
    from dprelease.ledger.ledger import Ledger

    try:
        accounts = Ledger(ledger).state().accounts
    except LedgerError:
        accounts = {}
    names = {table.identity for query in queries for table in query.charged_tables}
    measures = {accounts[name].privacy_measure for name in names & accounts.keys()}
    if not measures:
        return None if pure else LedgerCost.RHO
    return LedgerCost.RHO if LedgerCost.RHO in measures else LedgerCost.EPSILON
