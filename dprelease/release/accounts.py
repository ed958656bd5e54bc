"""Accounts of a ledger as people ask for them: opened from texts, shown, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.errors import BudgetError, DpReleaseError, LedgerError, Place, SessionError
from dprelease.ledger.account import Account, price
from dprelease.ledger.ledger import Ledger, events_of
from dprelease.ledger.steps import RESERVE
from dprelease.numerics.rounding import exact
from dprelease.planning.guarantees import check_budget
from dprelease.privacy.unit import Neighbours
from dprelease.release.charging import ROWS
from dprelease.schema.release import BudgetSpec


def account_of(
    table: str,
    unit: str | None,
    neighbours: str,
    epsilon: str | None,
    delta: str,
    rho: str | None,
) -> Account:
    """Return the account of a table; numbers are decimal texts.

    Raises
    ------
    BudgetError
        DP-BUDGET-001, 002, 009 for numbers out of range, 006 unless there is an epsilon or a rho.
    SessionError
        DP-SESSION-007 for an unknown neighbouring relation.
    """
    if neighbours not in list(Neighbours):
        raise SessionError("DP-SESSION-007", known=", ".join(Neighbours))
    if (epsilon is None) == (rho is None):
        raise BudgetError("DP-BUDGET-006", place=Place(key="budget"), column=table)
    numbers = [_number(text) for text in (epsilon, delta, rho)]
    spec = BudgetSpec(epsilon=numbers[0], delta=numbers[1] or Fraction(0), rho=numbers[2])
    check_budget(spec, Place(key="budget"))
    return Account(table, neighbours, unit or ROWS, spec.epsilon, spec.delta, spec.rho)


def _number(text: str | None) -> Fraction | None:
    try:
        return None if text is None else exact(text)
    except ValueError:
        place = Place(key="budget")
        raise BudgetError(
            "DP-BUDGET-001", place=place, found="not a number", least="1e-9", largest=100
        ) from None


def balances(path: Path) -> list[dict[str, Any]]:
    """Return budget, spent and left of every table, and how many releases it has paid for."""
    state = Ledger(path).state()
    rows = []
    for name, account in state.accounts.items():
        reservations = [r for r in state.reservations.values() if r.charge_of(name) is not None]
        rows.append(
            {
                "table": name,
                "counted": account.counted,
                "amount": float(account.amount),
                "spent": float(state.spent(name)),
                "left": float(state.left(name)),
                "releases": sum(r.is_charged for r in reservations),
                "open": sum(r.is_open for r in reservations),
                "neighbours": account.neighbours,
                "unit": account.unit,
            }
        )
    return rows


def _cost(account: Account, charge: Mapping[str, Any]) -> float:
    """Return what the events of a charge cost; no finite price where there is no such noise."""
    try:
        return price(account, events_of(charge))
    except (DpReleaseError, ArithmeticError, ValueError):
        return math.inf


def check_prices(path: Path) -> list[str]:
    """Return what holds: the chain, every recorded price, and every budget.

    Raises
    ------
    LedgerError
        DP-LEDGER-002 for a broken chain, or a price below what its events cost.
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
        if not _cost(account, charge) <= float(charge["price"]) * (1 + 1e-9):
            problem = f"entry {number} charges less than its events cost"
            raise LedgerError("DP-LEDGER-002", name=path.name, problem=problem)
    for name, account in state.accounts.items():
        if state.spent(name) > account.amount:
            problem = f"more is charged to {name} than it has"
            raise LedgerError("DP-LEDGER-002", name=path.name, problem=problem)
    return [
        f"{len(entries)} entries follow from each other",
        f"{len(charges)} charges cover what their events cost",
        f"{len(state.accounts)} budgets are kept",
    ]
