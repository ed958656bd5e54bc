"""Compute the state of a ledger from its entries, and identify processes that hold reservations.

A lock shows whether the process that made a reservation is alive (see `dprelease.system.locks`).
Process numbers are used only for reservations that older versions wrote, because the same number
can mean different processes in different containers.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from dprelease.errors import LedgerError, SignatureError
from dprelease.ledger import entries
from dprelease.ledger.account import Account, Charge
from dprelease.ledger.entries import CANCEL, COMMIT, OPEN, RESERVE, SIGNERS, Entry, problem_of
from dprelease.ledger.periods import parse_utc_time
from dprelease.signatures.signers import Signers
from dprelease.system.forks import Maker
from dprelease.system.locks import Lock, is_held

LOCK_SUFFIX = ".lock"


class ImpossibleEntryError(ValueError):
    """Raised for an entry with correct digests that no version of the ledger would write."""


@dataclass(slots=True)
class Reservation:
    """The reservation of one release: its first entry, and the kinds of its later entries."""

    entry: Entry
    steps: list[str] = field(default_factory=list)
    lock: Lock | None = None
    """The lock that shows that the run is alive; only in the process that made the reservation."""
    maker: Maker = field(default_factory=Maker)
    """The process that may write the next step; not checked for reservations read from a file."""
    accounts: Mapping[str, Account] = field(default_factory=dict)
    """The budgets at the time of the reservation; only in the process that made it."""

    @property
    def id(self) -> str:
        """Return the name of the reservation in the ledger."""
        return str(self.entry.body["id"])

    @property
    def is_charged(self) -> bool:
        """Return whether the reservation counts against the budget."""
        return CANCEL not in self.steps

    @property
    def is_open(self) -> bool:
        """Return whether the ledger has no entry yet about the end of the run."""
        return not {CANCEL, COMMIT} & set(self.steps)

    @property
    def records_reads(self) -> bool:
        """Return whether the ledger records when the run reads rows, as it does since format 2."""
        return bool(self.entry.body.get("locked"))

    @property
    def process(self) -> Process:
        """Return the process that made the reservation."""
        process_record = self.entry.body["process"]
        return Process(process_record["host"], process_record["pid"], process_record["started"])

    def is_abandoned(self, ledger: Path) -> bool:
        """Return whether the run has certainly ended; always False on other machines."""
        if not self.entry.body.get("locked"):  # the entry was written in format 1
            return self.process.is_dead
        # The lock of a process on another machine may be invisible here.
        return self.process.is_here and not is_held(lock_path(ledger, self.id))

    def charge_of(self, table: str) -> Mapping[str, Any] | None:
        """Return the charge of this reservation to a table; None if the table is not charged."""
        return next((c for c in self.entry.body["charges"] if c["table"] == table), None)


@dataclass(slots=True)
class State:
    """The budgets, reservations and signers of a ledger after all its entries."""

    accounts: dict[str, Account]
    reservations: dict[str, Reservation]
    first: str
    signers: Signers | None = None
    """The keys that may sign entries; None if entries need no signature."""
    latest: datetime | None = None
    """The latest time of all entries; later charges never belong to an earlier period."""

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> State:
        """Return the state after all entries.

        Raises ImpossibleEntry for an entry that no ledger would write after the entries before it.
        """
        state = cls({}, {}, entries[0].digest if entries else "")
        for entry in entries:
            try:
                problem = state._add(entry)
            except (KeyError, TypeError, ValueError, SignatureError):
                problem = "it is no entry of a ledger"
            if problem is not None:
                raise ImpossibleEntryError(f"entry {entry.number}: {problem}")
        return state

    def _add(self, entry: Entry) -> str | None:
        """Add an entry; return why it can't follow the earlier entries, or None if it can."""
        body = entry.body
        self._update_latest_time(body)
        if entry.kind == SIGNERS or self.signers is not None:
            problem = self._signature_problem(entry)
            if problem is not None or entry.kind == SIGNERS:
                return problem
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
            if not name.isalnum():  # the name becomes a part of the name of the lock file
                return "a name that no ledger gives"
            reservation = self.reservations[name] = Reservation(entry)
            return self._charge_problem(body["charges"]) if reservation.process else None
        if name not in self.reservations:
            return "a step of no reservation"
        steps = self.reservations[name].steps
        problem = problem_of(steps, body)
        steps.append(entry.kind)
        return problem

    def _update_latest_time(self, body: Mapping[str, Any]) -> None:
        """Update the latest time; raise ValueError for an invalid time that a check needs."""
        try:
            moment = parse_utc_time(body["time"])
        except ValueError:
            if self.signers or any(account.renewal for account in self.accounts.values()):
                raise
            return
        self.latest = moment if self.latest is None else max(moment, self.latest)

    def _signature_problem(self, entry: Entry) -> str | None:
        """Return why an entry has no valid signature, or None; apply a new list of signers."""
        new = entries.signers_of_entry(entry) if entry.kind == SIGNERS else None
        problem = entries.signature_problem(
            entry, self.signers or new or entries.signers_of_entry(entry), self.latest
        )
        self.signers = new or self.signers
        return problem

    def period(self, table: str, now: datetime) -> int | None:
        """Return the period of a charge at the time `now`; None for a budget that does not renew.

        The period may have no budget; then `Renewal.problem_at` returns the reason.
        """
        renewal = self.accounts[table].renewal
        if renewal is None:
            return None
        return renewal.period_at(now if self.latest is None else max(now, self.latest))

    def _charge_problem(self, charges: Sequence[Mapping[str, Any]]) -> str | None:
        """Return why charges can't follow this state, as a text; None if they can."""
        problem = _charge_problem(charges, self.accounts)
        if problem is not None:
            return problem
        for charge in charges:
            # The latest time is that of this entry, or a later time of an earlier entry.
            renewal, expected_period = self.accounts[charge["table"]].renewal, None
            if renewal is not None and self.latest is not None:
                expected_period = renewal.period_at(self.latest)
                if renewal.problem_at(expected_period) is not None:
                    return "a charge to a period that has no budget"
            if charge.get("period") != expected_period:
                return "a charge to another period than the one that it was made in"
        return None

    def charges(self, table: str, period: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the charges that count against the budget of a table, or of one of its periods."""
        if (period is None) is not (self.accounts[table].renewal is None):
            raise ValueError("a period is needed exactly for budgets that renew")
        for charge in self.all_charges(table):
            if charge.get("period") == period:
                yield charge

    def all_charges(self, table: str) -> Iterator[Mapping[str, Any]]:
        """Yield the charges that count against a table in any period."""
        for reservation in self.reservations.values():
            charge = reservation.charge_of(table)
            if reservation.is_charged and charge is not None:
                yield charge

    def spent(self, table: str, period: int | None = None) -> Fraction:
        """Return the exact sum of the charges, or the whole budget if one release used it up."""
        charges = list(self.charges(table, period))
        if any(charge["takes_all"] for charge in charges):
            return self.accounts[table].amount
        # Exact, because a sum of floats may round off a little budget with every charge.
        return sum((Fraction(float(charge["price"])) for charge in charges), Fraction(0))

    def remaining_budget(self, table: str, period: int | None = None) -> Fraction:
        """Return the remaining budget of a table, or of one period if its budget renews."""
        return max(Fraction(0), self.accounts[table].amount - self.spent(table, period))


def open_period(state: State, table: str, now: datetime) -> int | None:
    """Return the period of a charge at the time `now`; None for a budget that does not renew.

    Raises LedgerError: DP-LEDGER-014 if there is no budget for the current period.
    """
    period, renewal = state.period(table, now), state.accounts[table].renewal
    problem = None if renewal is None or period is None else renewal.problem_at(period)
    if problem is not None:
        raise LedgerError("DP-LEDGER-014", table=table, problem=problem)
    return period


def _charge_problem(charges: Sequence[Mapping[str, Any]], known: Container[str]) -> str | None:
    """Return why charges are impossible in every period, as a text; None if they are possible."""
    for charge in charges:
        if charge["table"] not in known:
            return "a charge to a table that has no budget"
        if not (charge["takes_all"] or 0.0 <= float(charge["price"]) < math.inf):
            return "a charge of no amount"
    return None


def lock_path(ledger: Path, name: str) -> Path:
    """Return the lock file of a reservation, next to the ledger."""
    real = ledger.resolve()
    return real.parent / f"{_lock_prefix(real)}{name}{LOCK_SUFFIX}"


def lock_paths(ledger: Path) -> dict[str, Path]:
    """Return the paths of the existing lock files, by the names of their reservations."""
    real, locks = ledger.resolve(), {}
    with suppress(OSError):
        for name in os.listdir(real.parent):
            if name.startswith(_lock_prefix(real)) and name.endswith(LOCK_SUFFIX):
                locks[name.removeprefix(_lock_prefix(real)).removesuffix(LOCK_SUFFIX)] = (
                    real.parent / name
                )
    return locks


def _lock_prefix(ledger: Path) -> str:
    """Return the beginning of the names of all lock files of a ledger."""
    return f".{ledger.name}-"


def invariants_record(charge: Charge) -> dict[str, Any]:
    """Return the keys of a charge's record on exactly published tables; empty if there are none."""
    if not charge.exactly:
        return {}
    return {"invariants": [*charge.invariants], "functions": dict(charge.exactly)}


def refuse_changed_functions(state: State, charge: Charge, ledger: str) -> None:
    """Raise LedgerError DP-LEDGER-022 if a name meant another function in an earlier charge.

    Exactly published tables are not charged to any budget. If the results of two functions were
    published under one name, a reader could subtract them, and would know exactly how many rows a
    condition, a computed column or a limit leaves out. The owner of the budget has allowed only one
    function with this name.

    Entries of earlier versions record no functions. After such entries, all charges must have the
    function that is first recorded for the name.
    """
    known: dict[str, str] = {}
    for past_charge in state.all_charges(charge.table):
        known |= past_charge.get("functions") or {}
    for name, function in charge.exactly:
        if known.setdefault(name, function) != function:
            raise LedgerError("DP-LEDGER-022", name=ledger, table=charge.table, invariant=name)


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a machine; `started` tells it apart from later processes with its number."""

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Self:
        """Return the running process."""
        return cls(platform.node(), os.getpid(), _start_time(os.getpid()) or "")

    @property
    def is_here(self) -> bool:
        """Return whether the process ran on this machine, by host name or by the kernel's boot."""
        boot = self.started.partition("/")[0]
        return self.host == platform.node() or (boot != "" and boot == _boot_id())

    @property
    def is_dead(self) -> bool:
        """Return whether the process has certainly ended; always False on other machines."""
        if self.host != platform.node():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        started = _start_time(self.pid)
        return started is not None and started != self.started

    def to_json(self) -> dict[str, object]:
        """Return the process as JSON values."""
        return {"host": self.host, "pid": self.pid, "started": self.started}


def _start_time(pid: int) -> str | None:
    """Return the start time of a process in the kernel's ticks since boot; None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    boot = _boot_id()
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not boot:
        return None
    # A zombie, which waits for its parent to collect its status, holds no resources any more.
    return f"{boot}/{'ended' if fields[0] == 'Z' else fields[19]}"


def _boot_id() -> str:
    """Return the kernel's boot id; empty if the kernel provides none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
