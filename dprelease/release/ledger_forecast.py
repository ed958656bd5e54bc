"""Forecast what a ledger has left for a release, and for how many such releases.

Plans show it and nothing is charged. It reads the ledger alone, never data: the remaining budget
says nothing about people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dprelease.errors import DpReleaseError
from dprelease.mechanisms import registry
from dprelease.numerics.rounding import finite
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.calibration import typical_error
from dprelease.planning.kinds import Weights, kind_of
from dprelease.planning.plan import FEW_KINDS, Plan, make_plan
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.release.charging import charges_of
from dprelease.schema.load import Declaration
from dprelease.schema.mechanism import MechanismSpec

if TYPE_CHECKING:  # a release without a ledger needs no SQLite
    from dprelease.ledger.account import Charge
    from dprelease.ledger.history import State
    from dprelease.ledger.ledger import Ledger

LESS = 0.95
"""Noise that costs more than this fraction of the release's cost is not mentioned."""

TIE = 0.99
"""Of mechanisms whose costs are this close, the first one is named."""


@dataclass(frozen=True, slots=True)
class Cheaper:
    """Noise that costs less in the ledger, under the release's own budget, with larger errors."""

    mechanism: str
    price: float
    fits: int
    errors: float
    """Factor by which errors grow, as the geometric mean over all noisy vectors."""

    def to_json(self) -> dict[str, Any]:
        """Return the alternative as JSON values."""
        return {
            "mechanism": self.mechanism,
            "price": self.price,
            "fits": self.fits,
            "errors": self.errors,
        }


@dataclass(frozen=True, slots=True)
class Outlook:
    """What remains in one table's lasting budget for a release.

    `price`: the cost of the release; infinite if its noise has no cost in the ledger's measure.
    `takes_all`: it fits only as the first release, and takes the whole budget. `fits`: how many
    such releases the ledger would pay for, this one included.
    """

    table: str
    counted: str
    amount: Fraction
    left: Fraction
    price: float
    takes_all: bool
    fits: int
    cheaper: Cheaper | None = None
    renewal: Mapping[str, Any] | None = None
    """A renewing budget's total risk for a person; other fields are about the current period."""

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as JSON values; an infinite cost is null."""
        return {
            "table": self.table,
            "counted": self.counted,
            "amount": float(self.amount),
            "left": float(self.left),
            "price": finite(self.price),
            "takes_all": self.takes_all,
            "fits": self.fits,
            "cheaper": None if self.cheaper is None else self.cheaper.to_json(),
            **({} if self.renewal is None else {"renewal": self.renewal}),
        }

    @property
    def words(self) -> str:
        """Return the forecast in a sentence or two."""
        what = f"{self.table}: {_short(self.left)} of {_short(self.amount)} {self.counted} is left"
        if self.takes_all:
            would = "; this release would take all of it, and no other fits."
        elif math.isinf(self.price):
            would = f"; this release can't be charged: its noise has no bound in {self.counted}."
        elif self.fits == 0:
            would = f"; this release would take {self.price:.4g}, and would be refused."
        else:
            would = f"; this release would take {self.price:.4g}: {self.fits} like it fit."
        renews = "" if self.renewal is None else f" {self.renewal['words']}"
        return what + would + self._cheaper_words() + renews

    def _cheaper_words(self) -> str:
        cheaper = self.cheaper
        if cheaper is None:
            return ""
        return (
            f" With {cheaper.mechanism} noise it would take {cheaper.price:.4g}, and "
            f"{cheaper.fits} would fit, with errors {cheaper.errors:.3g} times as large."
        )


def _short(amount: Fraction) -> str:
    return f"{float(amount):.6g}"


def outlooks(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> tuple[Outlook, ...] | None:
    """Return what remains in a release's ledger, table by table; None if it names none.

    Raises
    ------
    LedgerError
        DP-LEDGER-001 to 008, 014, 020 and 022 if the ledger is missing, or can't pay for these
        tables.
    """
    if declaration.spec.ledger is None:
        return None
    from dprelease.ledger.ledger import Ledger

    ledger = Ledger(declaration.folder / declaration.spec.ledger)
    state = ledger.state()
    left = left_for(ledger, state, charges_of(plan))
    others = list(_others(declaration, queries, plan))
    return tuple(replace(one, cheaper=_cheapest(one, state, others, plan)) for one in left)


def left_for(ledger: Ledger, state: State, charges: Sequence[Charge]) -> list[Outlook]:
    """Return what a ledger in this state has left for charges, by table; raises likewise."""
    from dprelease.ledger.functions import refuse_renamed

    priced = [ledger.with_cost(state.accounts, charge) for charge in charges]
    for charge in charges:
        refuse_renamed(state, charge, ledger.path.name)
    return [_outlook(state, charge, cost) for charge, cost in priced]


def _outlook(state: State, charge: Charge, cost: float) -> Outlook:
    from dprelease.ledger import periods
    from dprelease.ledger.account import fits_alone
    from dprelease.ledger.history import open_period
    from dprelease.ledger.lifetime import lifetime_of

    now = periods.now()
    period = open_period(state, charge.table, now)
    account, left = state.accounts[charge.table], state.remaining_budget(charge.table, period)
    fits = _fitting(left, cost)
    untouched = not any(True for _ in state.charges(charge.table, period))
    renewal = lifetime_of(state, charge.table, now).to_json().get("renewal")
    takes_all = fits == 0 and untouched and fits_alone(account, charge.events)
    return Outlook(
        charge.table,
        account.privacy_measure,
        account.amount,
        left,
        cost,
        takes_all,
        fits or int(takes_all),
        renewal=renewal,
    )


def _fitting(left: Fraction, cost: float) -> int:
    """Return how many charges of `cost` fit; the ledger adds them up exactly."""
    return left // Fraction(cost) if 0.0 < cost < math.inf else 0


def _others(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> Iterator[tuple[str, Plan]]:
    """Yield the plan of a release of aggregates with each other mechanism, under the same budget.

    Families with a shape to search are left out, because the search takes long and is the task of
    `auto`. So is bounded noise, whose loss has neither a pure epsilon nor a rho. Consistent tables
    take noise with a finite variance, and get the best shares for it.
    """
    kinds = {
        (column.accounting_input.key, column.accounting_input.sensitivity)
        for column in plan.noisy_columns
    }
    few = len(kinds) <= FEW_KINDS and declaration.spec.budget.spend == "all"
    if not (few and kind_of(declaration.spec).compares_noise):
        return
    weighed = any(m.of_family for query in queries for m in query.measurements)
    for name in registry.names():
        kind = registry.get(name)
        if len(kind.search) > 1 or kind.bounded or (weighed and not kind.tells_moments()):
            continue
        changed = [replace(query, measurements=_with(query, name)) for query in queries]
        try:
            yield name, _plan_release(declaration, changed, weighed=weighed)
        except DpReleaseError:
            continue  # no such noise fits this budget


def _plan_release(declaration: Declaration, queries: Sequence[Query], *, weighed: bool) -> Plan:
    """Return the plan of a release whose queries use other noise."""

    def again(weights: Weights) -> Plan:
        share = shares_of(declaration.spec, queries, weights)
        return make_plan(queries, declaration.spec.budget, share=share)

    plan = again({})
    if not weighed:
        return plan
    from dprelease.planning.families.family_shares import optimize_shares  # slow to import

    return optimize_shares(declaration, plan, again)


def _with(query: Query, name: str) -> tuple[Measurement, ...]:
    """Return the measurements of a query with other noise; selections and keys stay as they are.

    A declared accuracy stays as well, because it determines the amount of noise.
    """
    noise = MechanismSpec(name=name)
    return tuple(
        replace(measurement, mechanism=noise)
        if measurement.is_vector and not measurement.finds_keys
        else measurement
        for measurement in query.measurements
    )


def _cheapest(
    one: Outlook, state: State, others: Sequence[tuple[str, Plan]], plan: Plan
) -> Cheaper | None:
    """Return the cheapest noise that fits; None if none costs much less."""
    from dprelease.ledger.account import cost_of_events

    account, best = state.accounts[one.table], None
    limit = one.price * LESS
    for name, other in others:
        events = [
            column.event
            for column in other.noisy_columns
            if any(table.identity == one.table for table in column.query.charged_tables)
        ]
        cost = cost_of_events(account, events)
        fits = _fitting(one.left, cost)
        if cost < limit and fits:
            limit, best = cost * TIE, Cheaper(name, cost, fits, _errors(other, plan))
    return best


def _errors(other: Plan, plan: Plan) -> float:
    """Return the factor between the errors of two plans."""
    logs = [
        math.log(typical_error(new.mechanism) / typical_error(old.mechanism))
        for new, old in zip(other.noisy_columns, plan.noisy_columns, strict=True)
        if new.measurement.is_vector
    ]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
