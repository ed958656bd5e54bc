"""Open, list and check the accounts of a ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import BudgetError, DpReleaseError, LedgerError, Place, SessionError
from dprelease.errors.argument_types import checked_arguments, checked_methods
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import count_text
from dprelease.errors.suggestions import nearest
from dprelease.ledger import periods as periods_of
from dprelease.ledger.account import Account, cost_of_events, recorded_events
from dprelease.ledger.entries import RESERVE, problem_with_signers
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.lifetime import Lifetime, lifetime_of
from dprelease.ledger.periods import Renewal
from dprelease.numerics.rounding import Number, plain_text
from dprelease.planning.guarantees import release_budget
from dprelease.privacy.unit import Neighbours
from dprelease.release.charging import ROWS
from dprelease.signatures.signers import read_signers
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    import pandas as pd

    from dprelease.signatures.keys import SigningKey


def account_of(
    table: str,
    unit: str | None,
    neighbours: str,
    epsilon: Number | None,
    delta: Number | None,
    rho: Number | None,
    renewal: Renewal | None = None,
    invariants: Sequence[str] = (),
    rho_delta: Number | None = None,
) -> Account:
    """Return the account of a table.

    `invariants`: names of the tables that releases may publish exactly. `rho_delta`: the
    probability of outputs without a rho, such as private keys, in all releases together.

    Raises
    ------
    BudgetError
        DP-BUDGET-001, 002, 009 for numbers out of range, 006 if neither epsilon nor rho is set.
    SessionError
        DP-SESSION-007 for an unknown neighbouring relation.
    LedgerError
        DP-LEDGER-021 for invariants with add_remove neighbours, because their totals reveal a
        person; DP-LEDGER-026 for a `rho_delta` that is not a part of the budget's delta.
    """
    if neighbours not in list(Neighbours):
        raise SessionError("DP-SESSION-007", known=", ".join(Neighbours))
    if (epsilon is None) == (rho is None):
        raise BudgetError("DP-BUDGET-006", place=Place(key="budget"), column=table)
    spec = release_budget(Place(key="budget"), epsilon=epsilon, delta=delta, rho=rho)
    if invariants and neighbours != Neighbours.REPLACE:
        raise LedgerError("DP-LEDGER-021", table=table)
    exempt = Fraction(0)
    if rho_delta is not None:
        exempt = release_budget(Place(key="rho_delta"), epsilon=1, delta=rho_delta).delta
        if exempt and not exempt < (spec.delta if rho is None else 1):
            raise LedgerError("DP-LEDGER-026", found=plain_text(exempt))
    amounts = (spec.epsilon, spec.delta, spec.rho)
    return Account(table, neighbours, unit or ROWS, *amounts, renewal, tuple(invariants), exempt)


def renewal_of(every: str | None, begins: str | None, periods: int | None) -> Renewal | None:
    """Return how a budget renews; None if it does not renew.

    Without `begins`, the first period is the current calendar period in UTC.

    Raises
    ------
    LedgerError
        DP-LEDGER-017 for an invalid period, or if `begins` or `periods` is set without `every`.
    """
    problem = ""
    try:
        if every is not None:
            today = periods_of.now().date()
            first = today.replace(day=1, month=1 if every == "year" else today.month)
            words = {"every": every, "begins": begins or first.isoformat(), "periods": periods}
            return Renewal.from_json(words)
        if begins is not None or periods is not None:
            problem = "it states when, but not how often"
    except ValueError as refused:
        problem = str(refused)
    if problem:
        raise LedgerError("DP-LEDGER-017", problem=problem)
    return None


def open_account(
    path: Path, account: Account, signers: Path | None, key: SigningKey | None
) -> list[str]:
    """Open an account for a table in a ledger with these signers, and return sentences on it.

    Raises
    ------
    LedgerError
        DP-LEDGER-019 if the ledger already has signers; otherwise the errors of
        `Ledger.open_account`.
    SignatureError
        The errors of `read_signers`.
    """
    listed = None if signers is None else read_signers(signers)
    ledger = Ledger(path, key)
    if listed is not None:
        known = ledger.state() if path.exists() else None
        if known is not None and known.signers is not None:
            raise LedgerError("DP-LEDGER-019", name=path.name)
        if known is None or account.table not in known.accounts:  # otherwise nothing is written
            # Before the account: from the list on, every entry has a signature, so that of the
            # account, too.
            ledger.set_signers(listed.text)
    ledger.open_account(account)
    renews = account.renewal is not None
    return [lifetime_of(ledger.state(), account.table, periods_of.now()).words] if renews else []


def check_signers(path: Path, signers: Path) -> str:
    """Return a sentence that the listed signers have signed the ledger.

    Raises
    ------
    LedgerError
        DP-LEDGER-018 if an entry lacks a valid signature, or no entry is signed.
    SignatureError
        The errors of `read_signers`.
    """
    listed, entries = read_signers(signers), Ledger(path).history()
    problem = problem_with_signers(entries, listed)
    if problem is not None:
        raise LedgerError("DP-LEDGER-018", name=path.name, problem=problem)
    return f"the last entry, {entries[-1].number}, and so all before it, is signed by a signer"


@dataclass(frozen=True, slots=True, repr=False)
class Balance(Summarized):
    """The budget of a table in a ledger: its total, and what is spent and left, in `counted`.

    `counted`: epsilon or rho. `releases`: the number of charged releases; `open`: the number of
    reservations of runs that have not ended. A budget that renews is that of the current period.
    """

    table: str
    counted: str
    amount: Fraction
    spent: Fraction
    left: Fraction
    releases: int
    open: int
    neighbours: str
    unit: str | None
    invariants: tuple[str, ...]
    lifetime: Lifetime
    """How the budget renews, and the total risk of a person."""

    def _summary(self) -> Summary:
        """Return the total, the spent and the remaining budget."""
        amounts = (("budget", self.amount), ("spent", self.spent), ("left", self.left))
        rows = [(name, f"{self.counted} {float(amount):g}") for name, amount in amounts]
        return f"Balance of {self.table}", ("", ""), rows

    def to_json(self) -> dict[str, Any]:
        """Return the balance as JSON values."""
        amounts = {"amount": self.amount, "spent": self.spent, "left": self.left}
        return {
            "table": self.table,
            "counted": self.counted,
            **{name: float(amount) for name, amount in amounts.items()},
            "releases": self.releases,
            "open": self.open,
            "neighbours": self.neighbours,
            "unit": self.unit,
            **({"invariants": [*self.invariants]} if self.invariants else {}),
            **self.lifetime.to_json(),
        }


@dataclass(frozen=True, slots=True, repr=False)
@checked_methods
class LedgerBalances(Summarized):
    """The balances of a ledger when it was read, one for each table."""

    path: Path
    balances: tuple[Balance, ...]

    def _summary(self) -> Summary:
        """Return the budget of each table."""
        rows = [
            (one.table, one.counted, *(f"{float(x):g}" for x in (one.amount, one.spent, one.left)))
            for one in self.balances
        ]
        heads = ("table", "counted in", "budget", "spent", "left")
        return f"LedgerBalances: {self.path.name}", heads, rows

    def __getitem__(self, table: str) -> Balance:
        """Return the balance of a table: "owner/table", as in `dprelease ledger show`.

        Raises
        ------
        LedgerError
            DP-LEDGER-006 for a table without a budget.
        """
        known = [one.table for one in self.balances]
        if table in known:
            return self.balances[known.index(table)]
        raise LedgerError(
            "DP-LEDGER-006",
            name=self.path.name,
            table=table,
            nearest=nearest(str(table), known),
            known=", ".join(known) or "none",
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the balances as JSON values."""
        return [one.to_json() for one in self.balances]

    def to_pandas(self) -> pd.DataFrame:
        """Return the balances as a frame with one row for each table, without renewals."""
        import pandas as pd

        flat = [{**row, "renewal": None} for row in self.to_json()]
        return pd.DataFrame(flat).drop(columns=["renewal", "invariants"], errors="ignore")


@checked_arguments
def read_ledger(path: str | Path) -> LedgerBalances:
    """Return what is spent and left of the budget of every table in a ledger; changes nothing.

    Raises
    ------
    LedgerError
        DP-LEDGER-001 for a missing ledger, 002 for a damaged one.
    """
    check_paths(path)
    state = Ledger(Path(path)).state()
    now, balances = periods_of.now(), []
    for name, account in state.accounts.items():
        period = state.period(name, now)
        lifetime = lifetime_of(state, name, now)
        reservations = [r for r in state.reservations.values() if r.charge_of(name) is not None]
        left = state.remaining_budget(name, period) if lifetime.is_open else Fraction(0)
        balances.append(
            Balance(
                name,
                account.privacy_measure,
                Fraction(account.amount),
                Fraction(state.spent(name, period)),
                Fraction(left),
                sum(r.is_charged for r in reservations),
                sum(r.is_open for r in reservations),
                account.neighbours,
                account.unit,
                tuple(account.invariants),
                lifetime,
            )
        )
    return LedgerBalances(Path(path), tuple(balances))


def _charge_cost(account: Account, charge: Mapping[str, Any]) -> float:
    """Return the cost of a charge's events; infinite if such noise has no finite cost."""
    try:
        return cost_of_events(account, recorded_events(charge))
    except (DpReleaseError, ArithmeticError, ValueError):
        return math.inf


def check_recorded_costs(path: Path) -> list[str]:
    """Check the chain, every recorded cost and every budget; return sentences on what holds.

    Raises
    ------
    LedgerError
        DP-LEDGER-002 for a broken chain, or a recorded cost below that of its events.
    """
    ledger = Ledger(path)
    entries, state = ledger.history(), ledger.state()
    charges = [
        (entry.number, charge)
        for entry in entries
        if entry.kind == RESERVE
        for charge in entry.body["charges"]
    ]
    for number, charge in charges:
        account = state.accounts[charge["table"]]
        # Not `>`: a cost that is no number is refused, too.
        if not _charge_cost(account, charge) <= float(charge["price"]) * (1 + 1e-9):
            problem = f"entry {number} charges less than its noise costs"
            raise LedgerError("DP-LEDGER-002", name=path.name, problem=problem)
    for name, account in state.accounts.items():
        for period in dict.fromkeys(charge.get("period") for charge in state.all_charges(name)):
            if state.spent(name, period) > account.amount:
                problem = f"more is charged to {name} than it has"
                raise LedgerError("DP-LEDGER-002", name=path.name, problem=problem)
    return [
        f"{count_text(len(entries), 'entry follows', 'entries follow')} from each other",
        count_text(len(charges), "charge covers what its events", "charges cover what their events")
        + " cost",
        count_text(len(state.accounts), "budget is kept", "budgets are kept"),
    ]
