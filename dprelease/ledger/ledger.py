"""Reserve, publish, commit, recover: what a release that reached its folder costs, exactly once.

A reservation is charged from the moment it is written, before any row is read. `publish` is written
right before the one rename that makes a release readable, `commit` after it. A reservation without
`publish` whose process has ended released nothing, provably, and is given back; one with `publish`
stays charged for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

from dprelease.errors import BudgetError, DpReleaseError, LedgerError
from dprelease.errors import State as World
from dprelease.ledger.account import Account, Charge, fits_alone, price
from dprelease.ledger.chain import Entry
from dprelease.ledger.process import Process
from dprelease.ledger.store import Store
from dprelease.privacy.event import Event

RESERVE, PUBLISH, COMMIT, CANCEL, OPEN = "reserve", "publish", "commit", "cancel", "open"


@dataclass(slots=True)
class Reservation:
    """One release in the ledger: its first entry and the kinds of the later ones."""

    entry: Entry
    steps: list[str] = field(default_factory=list)

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
    def process(self) -> Process:
        """Return who made it."""
        held = self.entry.body["process"]
        return Process(held["host"], held["pid"], held["started"])

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
        """Return the state after all entries."""
        accounts: dict[str, Account] = {}
        reservations: dict[str, Reservation] = {}
        for entry in entries:
            if entry.kind == OPEN:
                account = Account.from_json(entry.body["account"])
                accounts[account.table] = account
            elif entry.kind == RESERVE:
                reservations[str(entry.body["id"])] = Reservation(entry)
            else:
                reservations[str(entry.body["id"])].steps.append(entry.kind)
        return cls(accounts, reservations, entries[0].digest if entries else "")

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


class Ledger:
    """A ledger file; every method opens it, changes it in one transaction, and closes it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def open_account(self, account: Account) -> Entry:
        """Give a table a budget, once; makes the file where it is not there.

        Raises
        ------
        LedgerError
            DP-LEDGER-007 if the table has one; 002 to 005 for the file.
        """
        Store.create(self.path)
        with Store.open(self.path) as store, store.transaction():
            if account.table in State.of(store.entries()).accounts:
                raise LedgerError("DP-LEDGER-007", name=self.path.name, table=account.table)
            return store.append({"kind": OPEN, "account": account.to_json(), "time": _now()})

    def state(self) -> State:
        """Return what the history adds up to; its chain is checked."""
        return State.of(self.history())

    def history(self) -> list[Entry]:
        """Return all entries; raises LedgerError for a broken chain."""
        with Store.open(self.path) as store:
            return store.entries()

    def reserve(self, charges: Sequence[Charge], title: str) -> Reservation:
        """Charge a release, wholly or not at all.

        Raises
        ------
        BudgetError
            DP-BUDGET-091 if a table has not enough left.
        LedgerError
            DP-LEDGER-006 and 008 for a table without a budget, or another unit or relation; 010 for
            noise that the budget can't count; 001 to 005 for the file.
        """
        process = Process.this()
        with Store.open(self.path) as store:
            accounts = State.of(store.entries()).accounts
            # Prices take long and need no lock: accounts never change.
            priced = [self.priced(accounts, charge) for charge in charges]
            with store.transaction():
                self._recover_dead(store)
                state = State.of(store.entries())
                held = [self._held(state, charge, cost) for charge, cost in priced]
                body = {
                    "kind": RESERVE,
                    "id": uuid4().hex,
                    "title": title,
                    "process": process.to_json(),
                    "time": _now(),
                    "charges": held,
                }
                return Reservation(store.append(body))

    def priced(self, accounts: Mapping[str, Account], charge: Charge) -> tuple[Charge, float]:
        """Return a charge and its price; raises as `reserve` for what the accounts can't count."""
        account = accounts.get(charge.table)
        if account is None:
            close = get_close_matches(charge.table, accounts, n=1)
            raise LedgerError(
                "DP-LEDGER-006",
                name=self.path.name,
                table=charge.table,
                nearest=f"; did you mean '{close[0]}'" if close else "",
                known=", ".join(accounts) or "none",
            )
        declared = f"{account.neighbours} of {account.unit}"
        found = f"{charge.neighbours} of {charge.unit}"
        if declared != found:
            raise LedgerError("DP-LEDGER-008", table=charge.table, declared=declared, found=found)
        return charge, price(account, charge.events)

    def _held(self, state: State, charge: Charge, cost: float) -> dict[str, Any]:
        """Return the record of a charge that fits; raise the reason why it does not."""
        account = state.accounts[charge.table]
        left = state.left(charge.table)
        takes_all = False
        if not 0.0 <= cost <= left:  # so that what is no number never fits
            untouched = not any(True for _ in state.charges(charge.table))
            takes_all = untouched and fits_alone(account, charge.events)
            if not takes_all:
                self._refuse(account, charge, cost, left)
        return {
            "table": charge.table,
            "price": repr(cost),
            "counted": account.counted,
            "takes_all": takes_all,
            "events": [event.to_json() for event in charge.events],
        }

    def _refuse(self, account: Account, charge: Charge, cost: float, left: Fraction) -> None:
        if math.isinf(cost):
            unpriced = next(e for e in charge.events if math.isinf(price(account, [e])))
            raise LedgerError(
                "DP-LEDGER-010",
                table=account.table,
                column=f"{unpriced.query}.{unpriced.column}",
                counted=account.counted,
            )
        raise BudgetError(
            "DP-BUDGET-091",
            table=account.table,
            price=f"{cost:.6g}",
            left=f"{float(left):.6g}",
            amount=f"{float(account.amount):.6g}",
            counted=account.counted,
        )

    def publish(self, reservation: Reservation) -> None:
        """Write that the release is about to become readable: from here on it stays charged."""
        self._step(reservation.id, PUBLISH, {})
        reservation.steps.append(PUBLISH)

    def commit(self, reservation: Reservation, manifest: str) -> None:
        """Write that the release is readable; `manifest`: the digest of its manifest."""
        self._step(reservation.id, COMMIT, {"manifest": manifest})

    def fail(self, reservation: Reservation) -> None:
        """Write that the run failed after rows had been read: it stays charged."""
        self._step(reservation.id, COMMIT, {"manifest": None})

    def cancel(self, reservation: Reservation) -> None:
        """Give back a reservation that released nothing."""
        self._step(reservation.id, CANCEL, {"why": "nothing was read or released"})

    def _step(self, name: str, kind: str, more: dict[str, Any]) -> None:
        with Store.open(self.path) as store, store.transaction():
            found = State.of(store.entries()).reservations.get(name)
            # What was about to be published can't be given back, nor published twice.
            if found is None or not found.is_open or (kind != COMMIT and found.steps):
                raise LedgerError("DP-LEDGER-009", name=self.path.name, id=name)
            store.append({"kind": kind, "id": name, "time": _now(), **more})

    @contextmanager
    def holding(self, reservation: Reservation) -> Iterator[None]:
        """Give a reservation back if the block ends before anything was read; else keep it.

        A failure after rows were read may say something about them, so it is charged; so is one of
        which that is not known, such as a lack of memory. A signal leaves the reservation open, for
        `recover`.
        """
        try:
            yield
        except DpReleaseError as error:
            if error.state is World.NOTHING and not reservation.steps:
                self.cancel(reservation)
            elif error.state is not World.RELEASED:
                self.fail(reservation)
                error.state = World.CHARGED
            raise
        except Exception:
            self.fail(reservation)
            raise

    def recover(self, gone: Sequence[str] = ()) -> list[str]:
        """Settle the reservations of processes that have ended, and say what happened.

        `gone`: names of machines of which the caller knows that no run of theirs is alive.
        """
        with Store.open(self.path) as store, store.transaction():
            return self._recover_dead(store, gone)

    def _recover_dead(self, store: Store, gone: Sequence[str] = ()) -> list[str]:
        words = []
        for found in State.of(store.entries()).reservations.values():
            if not found.is_open or not (found.process.is_dead or found.process.host in gone):
                continue
            title = found.entry.body["title"]
            if PUBLISH in found.steps:
                body: dict[str, Any] = {"kind": COMMIT, "manifest": None}
                words.append(f"{found.id} ({title}): may have been published; it stays charged")
            else:
                body = {"kind": CANCEL, "why": "its process ended before it published"}
                words.append(f"{found.id} ({title}): released nothing; given back")
            store.append({**body, "id": found.id, "time": _now()})
        return words


def events_of(charge: Mapping[str, Any]) -> list[Event]:
    """Return the events of a recorded charge."""
    return [Event.from_json(record) for record in charge["events"]]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
