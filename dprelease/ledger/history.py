"""What the entries of a ledger add up to."""

from __future__ import annotations

import math
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.ledger.account import Account
from dprelease.ledger.chain import Entry
from dprelease.ledger.holder import Process
from dprelease.ledger.steps import CANCEL, COMMIT, OPEN, RESERVE, problem_of
from dprelease.system.forks import Maker
from dprelease.system.locks import Lock, is_held

LOCK = ".lock"


class ImpossibleEntry(ValueError):
    """An entry whose digests are right, and that still is none of a ledger's."""


@dataclass(slots=True)
class Reservation:
    """One release in the ledger: its first entry and the kinds of the later ones."""

    entry: Entry
    steps: list[str] = field(default_factory=list)
    lock: Lock | None = None
    """What tells that its run is alive, in the process that made it."""
    maker: Maker = field(default_factory=Maker)
    """The process that may take its next step; of those that are read, nobody asks."""

    @property
    def id(self) -> str:
        """Return its name in the ledger."""
        return str(self.entry.body["id"])

    @property
    def is_charged(self) -> bool:
        """Return whether it counts."""
        return CANCEL not in self.steps

    @property
    def is_open(self) -> bool:
        """Return whether its end is not written yet."""
        return not {CANCEL, COMMIT} & set(self.steps)

    @property
    def tells_reads(self) -> bool:
        """Return whether a step would tell that its run had read rows; in format 1 none does."""
        return bool(self.entry.body.get("locked"))

    @property
    def process(self) -> Process:
        """Return who made it."""
        held = self.entry.body["process"]
        return Process(held["host"], held["pid"], held["started"])

    def is_abandoned(self, ledger: Path) -> bool:
        """Return whether its run has ended; only the machine that it ran on can tell."""
        if not self.entry.body.get("locked"):  # of format 1
            return self.process.is_dead
        return self.process.is_here and not is_held(lock_of(ledger, self.id))

    def charge_of(self, table: str) -> Mapping[str, Any] | None:
        """Return what it charges a table."""
        return next((c for c in self.entry.body["charges"] if c["table"] == table), None)


@dataclass(slots=True)
class State:
    """What the history adds up to."""

    accounts: dict[str, Account]
    reservations: dict[str, Reservation]
    first: str

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> State:
        """Return the state after all entries.

        Raises ImpossibleEntry for one that no ledger writes after those before.
        """
        state = cls({}, {}, entries[0].digest if entries else "")
        for entry in entries:
            try:
                problem = state._add(entry)
            except (KeyError, TypeError, ValueError):
                problem = "it is no entry of a ledger"
            if problem is not None:
                raise ImpossibleEntry(f"entry {entry.number}: {problem}")
        return state

    def _add(self, entry: Entry) -> str | None:
        """Add an entry; return why it can't follow those before."""
        body = entry.body
        if entry.kind == OPEN:
            account = Account.from_json(body["account"])
            if account.table in self.accounts:
                return "a second budget of one table"
            self.accounts[account.table] = account
            return None
        name = str(body["id"])
        if entry.kind == RESERVE:
            if name in self.reservations:
                return "a second reservation of one name"
            if not name.isalnum():  # it is part of the name of a file
                return "a name that no ledger gives"
            made = self.reservations[name] = Reservation(entry)
            return _problem_of_charges(body["charges"], self.accounts) if made.process else None
        if name not in self.reservations:
            return "a step of no reservation"
        steps = self.reservations[name].steps
        problem = problem_of(steps, body)
        steps.append(entry.kind)
        return problem

    def charges(self, table: str) -> Iterator[Mapping[str, Any]]:
        """Yield what counts against a table."""
        for reservation in self.reservations.values():
            charge = reservation.charge_of(table)
            if reservation.is_charged and charge is not None:
                yield charge

    def spent(self, table: str) -> Fraction:
        """Return the sum of what counts, exactly; the whole budget where one release took it."""
        charges = list(self.charges(table))
        if any(charge["takes_all"] for charge in charges):
            return self.accounts[table].amount
        return sum((Fraction(float(charge["price"])) for charge in charges), Fraction(0))

    def left(self, table: str) -> Fraction:
        """Return what is left of a budget."""
        return max(Fraction(0), self.accounts[table].amount - self.spent(table))


def _problem_of_charges(charges: Sequence[Mapping[str, Any]], known: Container[str]) -> str | None:
    for charge in charges:
        if charge["table"] not in known:
            return "a charge to a table that has no budget"
        if not (charge["takes_all"] or 0.0 <= float(charge["price"]) < math.inf):
            return "a charge of no amount"
    return None


def lock_of(ledger: Path, name: str) -> Path:
    """Return the file whose lock holds a reservation, beside the ledger itself."""
    real = ledger.resolve()
    return real.parent / f"{_locks(real)}{name}{LOCK}"


def locks_of(ledger: Path) -> dict[str, Path]:
    """Return the files of locks that are there, by the names of reservations."""
    real, locks = ledger.resolve(), {}
    with suppress(OSError):
        for name in os.listdir(real.parent):
            if name.startswith(_locks(real)) and name.endswith(LOCK):
                locks[name.removeprefix(_locks(real)).removesuffix(LOCK)] = real.parent / name
    return locks


def _locks(ledger: Path) -> str:
    return f".{ledger.name}-"
