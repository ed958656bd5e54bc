"""Check that the name of an exactly published table means the same function in all releases.

Exactly published tables are not charged to any budget. If the results of two functions were
published under one name, a reader could subtract them, and would know exactly how many rows a
condition, a computed column or a limit leaves out. The owner of the budget has allowed only one
function with this name.
"""

from __future__ import annotations

from typing import Any

from dprelease.errors import LedgerError
from dprelease.ledger.account import Charge
from dprelease.ledger.history import State


def invariants_record(charge: Charge) -> dict[str, Any]:
    """Return the keys of a charge's record on exactly published tables; empty if there are none."""
    if not charge.exactly:
        return {}
    return {"invariants": [*charge.invariants], "functions": dict(charge.exactly)}


def refuse_changed_functions(state: State, charge: Charge, ledger: str) -> None:
    """Raise LedgerError DP-LEDGER-022 if a name meant another function in an earlier charge.

    Entries of earlier versions record no functions. After such entries, all charges must have the
    function that is first recorded for the name.
    """
    known: dict[str, str] = {}
    for past_charge in state.all_charges(charge.table):
        known |= past_charge.get("functions") or {}
    for name, function in charge.exactly:
        if known.setdefault(name, function) != function:
            raise LedgerError("DP-LEDGER-022", name=ledger, table=charge.table, invariant=name)
