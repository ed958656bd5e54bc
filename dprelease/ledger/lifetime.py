"""Compute a person's total privacy cost under a renewing budget, over all its periods.

A budget that renews each year limits the privacy cost of one year. For people who are in the data
for several years, the costs add up. `ledger show`, plans and manifests report the sum next to the
budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from dprelease.ledger.account import BUDGET_KEYS, Account
from dprelease.ledger.history import State
from dprelease.ledger.periods import Renewal
from dprelease.numerics.rounding import plain_text


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The budget of one table over its periods.

    `period` is the current period, and None for a budget that does not renew.
    """

    account: Account
    period: int | None
    charged: Fraction = Fraction(0)
    """The sum of the charges over all periods; a budget that one release used up counts in full."""

    @property
    def is_open(self) -> bool:
        """Return whether the table has a budget in the current period."""
        renewal, period = self.account.renewal, self.period
        return renewal is None or period is None or renewal.problem_at(period) is None

    @property
    def elapsed_periods(self) -> int:
        """Return the number of periods so far, including the current period."""
        renewal, number = self.account.renewal, max(0, (self.period or 0) + 1)
        last = renewal.periods if renewal is not None else None
        return number if last is None else min(number, last)

    def to_json(self) -> dict[str, Any]:
        """Return the lifetime as JSON values; empty for a budget that does not renew."""
        renewal = self.account.renewal
        if renewal is None or self.period is None:
            return {}
        return {
            "renewal": {
                **self.record(),
                "periods_so_far": self.elapsed_periods,
                "charged_in_all": float(self.charged),
            }
        }

    def record(self) -> dict[str, Any]:
        """Return the budget, the renewal, the period and their explanation, as JSON values."""
        renewal, period = _renewal_of(self.account), self.period or 0
        account = self.account.to_json()
        return {
            "budget": {name: account[name] for name in BUDGET_KEYS if name in account},
            **renewal.to_json(),
            "period": period,
            "from": renewal.start(period).isoformat(),
            "until": renewal.start(period + 1).isoformat(),
            "words": self.words,
        }

    @property
    def words(self) -> str:
        """Return a few sentences on the meaning of the renewal for a person."""
        account, renewal = self.account, _renewal_of(self.account)
        number, every = self.elapsed_periods, renewal.every
        so_far = _budget_text(account, number)
        all_so_far = "the first period" if number == 1 else f"all {number} periods so far"
        period = self.period or 0
        days = (
            f"{renewal.start(period).isoformat()} to before {renewal.start(period + 1).isoformat()}"
        )
        if renewal.problem_at(period) is not None:
            days = f"none now, as {renewal.problem_at(period)}"
        text = (
            f"The budget of {_budget_text(account, 1)} is for one {every}, and is renewed every "
            f"{every} from {renewal.begins.isoformat()} on (UTC): period {period + 1}, {days}. "
            f"The cost for a person in the data of {all_so_far} may reach {so_far}"
        )
        if renewal.periods is None:
            one_budget = _budget_text(account, 1)
            return f"{text}, and {one_budget} more with every further {every}, without limit."
        total = _budget_text(account, renewal.periods)
        return f"{text}, and up to {total} in all {renewal.periods} periods."


def recomputed_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the result of `Lifetime.record` again, from its budget, renewal and period.

    Raises ValueError or TypeError for an invalid budget or renewal.
    """
    renews = {name: record[name] for name in ("every", "begins", "periods")}
    account = {"table": "", "neighbours": "", "unit": "", **record["budget"], "renews": renews}
    return Lifetime(Account.from_json(account), record["period"]).record()


def lifetime_of(state: State, table: str, days: datetime) -> Lifetime:
    """Return the budget of a table over its periods up to a time."""
    account = state.accounts[table]
    if account.renewal is None:
        return Lifetime(account, None)
    periods = {charge["period"] for charge in state.all_charges(table)}
    charged = sum((state.spent(table, period) for period in periods), Fraction(0))
    return Lifetime(account, state.period(table, days), charged)


def _renewal_of(account: Account) -> Renewal:
    """Return the renewal of a budget; raise ValueError if the budget does not renew."""
    if account.renewal is None:
        raise ValueError("this budget does not renew")
    return account.renewal


def _budget_text(account: Account, times: int) -> str:
    """Return the text of the sum of `times` budgets, by basic composition."""
    if account.rho is not None:
        exempt = account.rho_delta * times
        up_to = f" up to a delta of {plain_text(exempt)}" if exempt else ""
        return f"rho {plain_text(account.rho * times)}{up_to}"
    at = f" at delta {plain_text(account.delta * times)}" if account.delta else ""
    return f"epsilon {plain_text((account.epsilon or Fraction(0)) * times)}{at}"
