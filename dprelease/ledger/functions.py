"""Check that the name of an exactly published table stands for the same function in all releases.

Exactly published tables are not charged to any budget. If two functions were published under the
same name, a reader could subtract them, and would know exactly how many rows a condition, a
computed column or a limit leaves out. The owner of the budget allowed only one function by that
name.
"""

from __future__ import annotations

from typing import Any

from dprelease.errors import LedgerError
from dprelease.ledger.account import Charge
from dprelease.ledger.history import State


def invariants_record(charge: Charge) -> dict[str, Any]:
    """Return the keys of a charge record about exactly published tables; empty without such
    tables."""
    if not charge.exactly:
        return {}
    return {"invariants": [*charge.invariants], "functions": dict(charge.exactly)}


def refuse_changed_functions(state: State, charge: Charge, ledger: str) -> None:
    """Raise LedgerError DP-LEDGER-022 if a name stood for another function in an earlier charge.

    Entries of earlier versions record no functions. After such entries, the first recorded function
    of a name is the one that all later charges must have.
    """
    known: dict[str, str] = {}
    for past_charge in state.all_charges(charge.table):
        known |= past_charge.get("functions") or {}
    for name, function in charge.exactly:
        if known.setdefault(name, function) != function:
            raise LedgerError("DP-LEDGER-022", name=ledger, table=charge.table, invariant=name)
