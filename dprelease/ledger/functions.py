"""Exactly published tables, outside every budget: each name stands for one function, permanently.

If two functions with the same name were published, their difference would be exact too: the rows
that a condition, a computed column or a limit leaves out. The owner allowed only one function by
that name.
"""

from __future__ import annotations

from typing import Any

from dprelease.errors import LedgerError
from dprelease.ledger.account import Charge
from dprelease.ledger.history import State


def invariants_record(charge: Charge) -> dict[str, Any]:
    """Return an entry's record of exactly published tables; empty if there are none."""
    if not charge.exactly:
        return {}
    return {"invariants": [*charge.invariants], "functions": dict(charge.exactly)}


def refuse_renamed(state: State, charge: Charge, ledger: str) -> None:
    """Raise LedgerError DP-LEDGER-022 for a name that stands for two functions.

    Entries of earlier versions record no functions: the first one after them counts.
    """
    known: dict[str, str] = {}
    for past_charge in state.all_charges(charge.table):
        known |= past_charge.get("functions") or {}
    for name, function in charge.exactly:
        if known.setdefault(name, function) != function:
            raise LedgerError("DP-LEDGER-022", name=ledger, table=charge.table, invariant=name)
