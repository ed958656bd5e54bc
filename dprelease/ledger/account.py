"""Add up the charges to a budget of the ledger by a privacy filter.

A privacy filter is valid for adaptively selected releases, in which each release may depend on all
earlier answers:

- A pure budget adds pure epsilons (Rogers, Roth, Ullman and Vadhan 2016, arXiv 1605.08294v1,
  Theorem 3.6 with delta 0).
- A budget in rho adds the rho of each release (Feldman and Zrnic 2021, arXiv 2008.11193v4, Theorem
  3.1 at every order). It may also have a `rho_delta`, a delta for outputs without a rho, such as
  private keys. The deltas that releases use of it are added, too (Whitehouse, Ramdas, Rogers and Wu
  2023, arXiv 2203.05481, Theorem 1).
- A budget (epsilon, delta) is converted once into the largest rho that implies at most epsilon at
  delta - rho_delta, and its charges are then added in rho. All releases together are rho_delta-
  approximately rho-zCDP, which implies (epsilon, delta) (Bun and Steinke 2016, arXiv 1605.02065v1,
  section 8). A composition of the privacy loss distributions of several releases would be tighter,
  but it is valid only if all releases were fixed in advance. There is one such case: the cost of
  the first release on an unused budget may be computed from the composed loss distributions of its
  queries. That release then uses up the whole budget.

The queries of a single release are fixed in advance, so the accountant composes their costs in the
same way as without a ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Self

from dprelease.errors import LedgerError
from dprelease.ledger.periods import Renewal
from dprelease.mechanisms import registry
from dprelease.numerics.rounding import exact, plain_text, round_down, round_up
from dprelease.privacy.accounting import epsilon_at, pure_epsilon
from dprelease.privacy.guarantee import Event
from dprelease.privacy.priced_vector import PricedVector, priced_vector
from dprelease.privacy.renyi import approximate_rho_of, rho_of, zcdp_epsilon

EPSILON, RHO = "epsilon", "rho"
BUDGET_KEYS = ("epsilon", "delta", "rho", "rho_delta")
"""The keys of the numbers of a budget in the record of an account."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one table: its budget, its privacy unit, and its neighbour relation.

    With a `renewal`, the amounts are the budget of each period, and the privacy filter applies
    within each period. The budgets of several periods add up by basic composition, because each
    budget was fixed in advance, whatever was released in the other periods (Rogers et al. 2016,
    Theorem 3.6).
    """

    table: str
    neighbours: str
    unit: str
    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None
    renewal: Renewal | None = None
    invariants: tuple[str, ...] = ()
    """The names of the tables that releases may publish exactly, without a charge. The guarantee of
    all releases together holds between data sets with equal values in these tables."""
    rho_delta: Fraction = Fraction(0)
    """The probability of outputs without a rho, such as private keys, in all releases together."""

    @property
    def privacy_measure(self) -> str:
        """Return "epsilon" for a pure budget, and "rho" for other budgets."""
        return EPSILON if self.rho is None and self.delta == 0 else RHO

    @property
    def amount(self) -> Fraction:
        """Return the whole budget in its privacy measure, rounded down."""
        if self.rho is not None:
            return self.rho
        epsilon = self.epsilon or Fraction(0)
        if self.delta == 0:
            return epsilon
        # Before the conversion, `rho_delta` is set aside for outputs without a rho.
        return Fraction(largest_rho(epsilon, self.delta - self.rho_delta))

    def to_json(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        return {
            "table": self.table,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "epsilon": None if self.epsilon is None else plain_text(self.epsilon),
            "delta": plain_text(self.delta),
            "rho": None if self.rho is None else plain_text(self.rho),
            **({} if self.renewal is None else {"renews": self.renewal.to_json()}),
            **({"invariants": [*self.invariants]} if self.invariants else {}),
            **({"rho_delta": plain_text(self.rho_delta)} if self.rho_delta else {}),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the account from a record written by `to_json`."""
        epsilon, rho = (
            None if record[name] is None else exact(record[name]) for name in ("epsilon", "rho")
        )
        return cls(
            record["table"],
            record["neighbours"],
            record["unit"],
            epsilon,
            exact(record["delta"]),
            rho,
            Renewal.from_json(record["renews"]) if record.get("renews") else None,
            tuple(record.get("invariants") or ()),
            exact(record.get("rho_delta") or "0"),
        )


@cache
def largest_rho(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest rho that implies at most `epsilon` at `delta`, rounded down."""
    # The float that is nearest to a budget may exceed it.
    limit, at = round_down(epsilon), round_down(delta)
    low, high = 0.0, limit
    while high - low > 2.0**-40 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_epsilon(middle, at) <= limit else (low, middle)
    # Not the middle: only for the lower end the epsilon is known to be within the budget.
    return low


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one release to one table."""

    table: str
    neighbours: str
    unit: str
    events: tuple[Event, ...]
    exactly: tuple[tuple[str, str], ...] = ()
    """The name of each exactly published table, with the digest of the function that it names."""

    @property
    def invariants(self) -> tuple[str, ...]:
        """Return the names of the tables that the release publishes exactly."""
        return tuple(dict.fromkeys(name for name, _ in self.exactly))


def cost_of_events(account: Account, events: Sequence[Event]) -> float:
    """Return the cost of events in the privacy measure of an account, rounded up.

    The cost is infinite if the noise has no finite cost in this measure. If the budget has a
    `rho_delta`, and the events use a part of it, the cost is at least the same part of the budget's
    rho. So as long as the costs add up to at most this rho, the used deltas add up to at most
    `rho_delta`.
    """
    vectors = vectors_of(events)
    if account.privacy_measure == RHO and account.rho_delta:
        rho, delta = approximate_rho_of(vectors)
        # The delta is charged as a part of the amount, in proportion to `rho_delta`. The larger one
        # of both counts, so a sum of charges within the amount is within both budgets.
        return max(rho, round_up(account.amount * delta / account.rho_delta))
    if account.privacy_measure == RHO:
        return rho_of(vectors)
    pure = pure_epsilon(vectors)
    return math.inf if pure is None else round_up(pure)


def fits_unused_budget(account: Account, events: Sequence[Event]) -> bool:
    """Return whether events fit an unused budget of epsilon and delta.

    Their cost is computed from the composition of their privacy loss distributions.
    """
    if account.epsilon is None or account.delta == 0:
        return False
    # Only an unused budget: composed loss distributions need releases that are fixed in advance.
    return epsilon_at(vectors_of(events), account.delta) <= account.epsilon


def vectors_of(events: Sequence[Event]) -> list[PricedVector]:
    """Return the vectors of recorded events, which are the input of the accountant."""
    mechanisms = ((registry.mechanism_of_event(event), event.sensitivity) for event in events)
    return [
        priced_vector(
            mechanism,
            mechanism.losses,
            sensitivity,
            renyi_from_l2_norm=mechanism.renyi_from_l2_norm,
            costs_most_in_few_cells=mechanism.costs_most_in_few_cells,
        )
        for mechanism, sensitivity in mechanisms
    ]


def invariant_error(ledger: str, account: Account, invariant: str) -> LedgerError:
    """Return the error for an exactly published table that the budget does not name."""
    allowed = "; ".join(f"'{one}'" for one in account.invariants) or "none"
    context: dict[str, Any] = {"table": account.table, "invariant": invariant, "allowed": allowed}
    return LedgerError("DP-LEDGER-020", name=ledger, **context)


def recorded_events(charge: Mapping[str, Any]) -> list[Event]:
    """Return the events of a charge, read from its JSON record."""
    return [Event.from_json(record) for record in charge["events"]]
