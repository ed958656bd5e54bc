"""What is published exactly, outside every budget: each name stands for one function for good.

Of two functions of one name that are both published, the difference is exact too: the rows that a
condition, a computed column or a bound leaves out. Whoever allowed the name allowed one of them.
"""

from __future__ import annotations

from typing import Any

from dprelease.errors import LedgerError
from dprelease.ledger.account import Charge
from dprelease.ledger.history import State


def invariants_record(charge: Charge) -> dict[str, Any]:
    """Return what an entry tells of what a release publishes exactly; nothing where nothing is."""
    if not charge.exactly:
        return {}
    return {"invariants": [*charge.invariants], "functions": dict(charge.exactly)}


def refuse_renamed(state: State, charge: Charge, ledger: str) -> None:
    """Raise LedgerError DP-LEDGER-022 for a name that stands for two functions.

    Entries of earlier versions tell no functions: whatever comes first after them is the one.
    """
    known: dict[str, str] = {}
    for held in state.all_charges(charge.table):
        known |= held.get("functions") or {}
    for name, function in charge.exactly:
        if known.setdefault(name, function) != function:
            raise LedgerError("DP-LEDGER-022", name=ledger, table=charge.table, invariant=name)
