"""Forecast the remaining budget in a ledger for a release, and how many such releases it allows.

Plans show the forecast, and nothing is charged. The forecast reads only the ledger and no data: the
remaining budget reveals nothing about people.
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

MENTIONED_COST_RATIO = 0.95
"""Other noise is mentioned if it costs less than this fraction of the release's cost."""

TIED_COST_RATIO = 0.99
"""If the costs of mechanisms differ by less than this factor, the first mechanism is named."""


@dataclass(frozen=True, slots=True)
class CheaperNoise:
    """Noise with a lower cost in the ledger under the release's own budget, but larger errors."""

    mechanism: str
    price: float
    fits: int
    errors: float
    """Factor by which the errors grow, as the geometric mean over all noisy vectors."""

    def to_json(self) -> dict[str, Any]:
        """Return this cheaper noise as JSON values."""
        return {
            "mechanism": self.mechanism,
            "price": self.price,
            "fits": self.fits,
            "errors": self.errors,
        }


@dataclass(frozen=True, slots=True)
class Outlook:
    """The remaining budget of one table in its ledger for a release.

    `price`: the cost of the release; infinite if its noise has no cost in the ledger's measure.
    `takes_all`: whether the release fits only as the first one, and takes the whole budget. `fits`:
    the number of such releases, this one included, that the ledger would pay for.
    """

    table: str
    counted: str
    amount: Fraction
    left: Fraction
    price: float
    takes_all: bool
    fits: int
    cheaper: CheaperNoise | None = None
    renewal: Mapping[str, Any] | None = None
    """The total risk of a person under a renewing budget; other fields are about the current
    period."""

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
        """Return the forecast in one or two sentences."""
        left, amount = _amount_text(self.left), _amount_text(self.amount)
        what = f"{self.table}: {left} of {amount} {self.counted} is left"
        if self.takes_all:
            would = "; this release would take all of it, and no other fits."
        elif math.isinf(self.price):
            would = f"; this release can't be charged: its noise has no bound in {self.counted}."
        elif self.fits == 0:
            would = f"; this release would take {self.price:.4g}, and would be refused."
        else:
            would = f"; this release would take {self.price:.4g}: {self.fits} like it fit."
        renews = "" if self.renewal is None else f" {self.renewal['words']}"
        return what + would + self._cheaper_noise_text() + renews

    def _cheaper_noise_text(self) -> str:
        """Return a sentence on cheaper noise; empty if there is none."""
        cheaper = self.cheaper
        if cheaper is None:
            return ""
        return (
            f" With {cheaper.mechanism} noise it would take {cheaper.price:.4g}, and "
            f"{cheaper.fits} would fit, with errors {cheaper.errors:.3g} times as large."
        )


def _amount_text(amount: Fraction) -> str:
    """Return an amount of budget with six significant digits."""
    return f"{float(amount):.6g}"


def ledger_outlooks(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> tuple[Outlook, ...] | None:
    """Return the remaining budget in a release's ledger, table by table; None without a ledger.

    Raises LedgerError: DP-LEDGER-001 to 008, 014, 020 and 022 if the ledger is missing, or can't
    pay for these tables.
    """
    if declaration.spec.ledger is None:
        return None
    from dprelease.ledger.ledger import Ledger

    ledger = Ledger(declaration.folder / declaration.spec.ledger)
    state = ledger.state()
    left = charge_outlooks(ledger, state, charges_with_limits(plan))
    if plan.limits is not None:
        return tuple(_with_two_charges(one) for one in left)
    others = list(_plans_with_other_noise(declaration, queries, plan))
    return tuple(replace(one, cheaper=_cheapest_noise(one, state, others, plan)) for one in left)


def charges_with_limits(plan: Plan) -> list[Charge]:
    """Return the charges of a plan, added up with those of its private choices of limits."""
    tables = charges_of(plan)
    first = {} if plan.limits is None else {one.table: one for one in charges_of(plan.limits)}
    return [
        replace(one, events=(*first[one.table].events, *one.events)) if one.table in first else one
        for one in tables
    ]


def _with_two_charges(one: Outlook) -> Outlook:
    """Return the forecast for a release that is charged twice: first for its limits.

    The second charge finds a budget that is not unused any more, so costs add up in the measure of
    the ledger, and no release takes the whole budget at once.
    """
    return replace(one, takes_all=False, fits=0) if one.takes_all else one


def charge_outlooks(ledger: Ledger, state: State, charges: Sequence[Charge]) -> list[Outlook]:
    """Return the remaining budget of each charged table in a ledger with this state.

    Raises the same LedgerErrors as `ledger_outlooks`.
    """
    from dprelease.ledger.history import refuse_changed_functions

    priced = [ledger.with_cost(state.accounts, charge) for charge in charges]
    for charge in charges:
        refuse_changed_functions(state, charge, ledger.path.name)
    return [_table_outlook(state, charge, cost) for charge, cost in priced]


def _table_outlook(state: State, charge: Charge, cost: float) -> Outlook:
    """Return the remaining budget of the table of one charge."""
    from dprelease.ledger import periods
    from dprelease.ledger.account import fits_unused_budget
    from dprelease.ledger.history import open_period
    from dprelease.ledger.lifetime import lifetime_of

    now = periods.now()
    period = open_period(state, charge.table, now)
    account, left = state.accounts[charge.table], state.remaining_budget(charge.table, period)
    fits = _number_of_fitting_charges(left, cost)
    untouched = not any(True for _ in state.charges(charge.table, period))
    renewal = lifetime_of(state, charge.table, now).to_json().get("renewal")
    takes_all = fits == 0 and untouched and fits_unused_budget(account, charge.events)
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


def _number_of_fitting_charges(left: Fraction, cost: float) -> int:
    """Return how many charges of `cost` fit in a budget; the ledger adds charges exactly."""
    return left // Fraction(cost) if 0.0 < cost < math.inf else 0


def _plans_with_other_noise(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> Iterator[tuple[str, Plan]]:
    """Yield the plan of a release of aggregates with each other mechanism, under the same budget.

    Mechanisms with shape parameters to search are left out, because the search takes long and is
    done by `auto`. Bounded noise is left out too, because its privacy loss has neither a pure
    epsilon nor a rho. Consistent tables use only noise with a finite variance, and get the best
    budget shares for it.
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
        if (
            len(kind.searched_shapes) > 1
            or kind.has_bounded_noise
            or (weighed and not kind.has_variance_bound())
        ):
            continue
        changed = [
            replace(query, measurements=_measurements_with_noise(query, name)) for query in queries
        ]
        try:
            yield name, _plan_release(declaration, changed, weighed=weighed)
        except DpReleaseError:
            continue  # no noise of this mechanism fits the budget


def _plan_release(declaration: Declaration, queries: Sequence[Query], *, weighed: bool) -> Plan:
    """Return the plan of a release whose queries use other noise."""

    def plan_with_weights(weights: Weights) -> Plan:
        """Return the plan in which each vector gets the budget share of its weight."""
        share = shares_of(declaration.spec, queries, weights)
        return make_plan(queries, declaration.spec.budget, share=share)

    plan = plan_with_weights({})
    if not weighed:
        return plan
    from dprelease.planning.families.family_shares import (
        optimize_shares,  # this module loads slowly
    )

    return optimize_shares(declaration, plan, plan_with_weights)


def _measurements_with_noise(query: Query, name: str) -> tuple[Measurement, ...]:
    """Return the measurements of a query with other noise, except selections and private keys.

    A declared accuracy is also unchanged, because it determines the amount of noise.
    """
    noise = MechanismSpec(name=name)
    return tuple(
        replace(measurement, mechanism=noise)
        if measurement.is_vector and not measurement.finds_keys
        else measurement
        for measurement in query.measurements
    )


def _cheapest_noise(
    one: Outlook, state: State, others: Sequence[tuple[str, Plan]], plan: Plan
) -> CheaperNoise | None:
    """Return the cheapest other noise that fits the budget; None if none costs much less."""
    from dprelease.ledger.account import cost_of_events

    account, best = state.accounts[one.table], None
    limit = one.price * MENTIONED_COST_RATIO
    for name, other in others:
        events = [
            column.event
            for column in other.noisy_columns
            if any(table.identity == one.table for table in column.query.charged_tables)
        ]
        cost = cost_of_events(account, events)
        fits = _number_of_fitting_charges(one.left, cost)
        if cost < limit and fits:
            limit = cost * TIED_COST_RATIO
            best = CheaperNoise(name, cost, fits, _error_ratio(other, plan))
    return best


def _error_ratio(other: Plan, plan: Plan) -> float:
    """Return the factor by which the errors of another plan exceed those of the release's plan."""
    logs = [
        math.log(typical_error(new.mechanism) / typical_error(old.mechanism))
        for new, old in zip(other.noisy_columns, plan.noisy_columns, strict=True)
        if new.measurement.is_vector
    ]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
