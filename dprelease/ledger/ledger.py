"""Charge releases to a ledger, so that a run which read rows is charged exactly once.

A run makes a reservation, and then records each further step; `entries.py` defines their order and
meaning. The process of a run holds a lock on a file next to the ledger. When no process holds the
lock any more, the next reservation, or `recover`, settles the reservation: the charge is refunded
if the entries show that the run read nothing, and otherwise remains. If a live run is mistaken for
one that has ended, only this run fails, because a settled reservation gets no further step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dprelease.errors import BudgetError, ChargeState, LedgerError, RunState, SignatureError
from dprelease.errors.suggestions import nearest
from dprelease.ledger import periods
from dprelease.ledger.account import (
    Account,
    Charge,
    cost_of_events,
    fits_unused_budget,
    invariant_error,
)
from dprelease.ledger.entries import (
    CANCEL,
    COMMIT,
    OPEN,
    PUBLISH,
    READ,
    RESERVE,
    SIGNERS,
    Entry,
    problem_of,
    signers_without_local_times,
)
from dprelease.ledger.history import (
    ImpossibleEntryError,
    Process,
    Reservation,
    State,
    invariants_record,
    lock_path,
    lock_paths,
    open_period,
    refuse_changed_functions,
)
from dprelease.ledger.periods import parse_utc_time
from dprelease.ledger.store import Store, damage_error, write_error
from dprelease.signatures.sshsig import ENTRIES, fingerprint
from dprelease.system.locks import Lock

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey


class Ledger:
    """A ledger file; every method opens the file, changes it in one transaction, and closes it.

    If the ledger has signers, entries can be written only with a `key`, which signs them.
    """

    def __init__(self, path: str | Path, key: SigningKey | None = None) -> None:
        self.path, self.key = Path(path), key

    def open_account(self, account: Account) -> Entry:
        """Open the budget of a table, which can't be changed later; create a missing file.

        Raises LedgerError: DP-LEDGER-007 if the table already has a budget; 002 to 005 for problems
        of the file.
        """
        Store.create(self.path)
        with Store.open(self.path) as store, store.transaction():
            state = self._state(store)
            if account.table in state.accounts:
                raise LedgerError("DP-LEDGER-007", name=self.path.name, table=account.table)
            body = {"kind": OPEN, "account": account.to_json(), "time": periods.now_text()}
            return self._append(store, state, body)

    def set_signers(self, text: str) -> Entry:
        """Require, from now on, a signature by one of the listed keys on every entry.

        `text` is the content of an allowed_signers file of OpenSSH. The first list must be signed
        by a key in this list, and every later list by a key in the previous list. A missing file is
        created.

        Raises LedgerError: DP-LEDGER-015 without a key, 016 for a key that may not sign; 002 to 005
        for problems of the file. Raises SignatureError: DP-SIGN-007 for an invalid list, or one
        whose keys may not sign now; errors of the key.
        """
        new = signers_without_local_times(text)
        Store.create(self.path)
        with Store.open(self.path) as store, store.transaction():
            state, now = self._state(store), periods.now_text()
            if all(line.refusal(ENTRIES, parse_utc_time(now)) for line in new.lines):
                problem = "none of its keys may currently sign entries of a ledger"
                raise SignatureError("DP-SIGN-007", problem=problem)
            state.signers = state.signers or new
            body = {"kind": SIGNERS, "signers": text, "time": now}
            return self._append(store, state, body)

    def _append(self, store: Store, state: State, body: dict[str, Any]) -> Entry:
        """Add an entry, signed if required; raise LedgerError for a missing or refused key."""
        return store.append(body, self._key_for_entry(state, body["time"]))

    def _key_for_entry(self, state: State, time: str) -> SigningKey | None:
        """Return the key for an entry with a time; None if the ledger has no signers."""
        if state.signers is None:
            return None
        if self.key is None:
            raise LedgerError("DP-LEDGER-015", name=self.path.name)
        now = parse_utc_time(time)
        at = now if state.latest is None else max(now, state.latest)
        verdict = state.signers.judge(self.key.public, ENTRIES, at)
        if not verdict.is_accepted:
            problem = verdict.refusal or "it is not in the list of signers"
            who = fingerprint(self.key.public)
            raise LedgerError("DP-LEDGER-016", name=self.path.name, who=who, problem=problem)
        return self.key

    def state(self) -> State:
        """Return the state after all entries; raise LedgerError for an impossible history."""
        with Store.open(self.path) as store:
            return self._state(store)

    def _state(self, store: Store) -> State:
        """Return the state after all entries; raise LedgerError for an impossible history."""
        try:
            return State.of(store.entries())
        except ImpossibleEntryError as impossible:
            problem = str(impossible)
        raise damage_error(self.path, problem)

    def history(self) -> list[Entry]:
        """Return all entries; raise LedgerError for a broken chain."""
        with Store.open(self.path) as store:
            return store.entries()

    def reserve(
        self, charges: Sequence[Charge], title: str, state: RunState | None = None
    ) -> Reservation:
        """Charge a release to all its tables or to none; `state` records whether it was charged.

        Raises BudgetError: DP-BUDGET-091 if the remaining budget of a table is too small. Raises
        LedgerError: DP-LEDGER-006 for a table without a budget; 008 for a budget with another
        privacy unit or neighbour relation; 010 for noise that the budget's measure can't count; 014
        for a budget without a current period; 015 and 016 for entries that the key can't sign; 020
        for an invariant that the budget was not opened with; 022 for an invariant whose name stands
        for another function; 001 to 005 for problems of the file.
        """
        state_before = self.state()
        accounts = state_before.accounts
        self._key_for_entry(state_before, periods.now_text())
        # Costs take long; they may be computed before the transaction, as accounts never change.
        costs = [self.with_cost(accounts, charge) for charge in charges]
        # Locked before the entry exists: otherwise another process could take this run for one that
        # has ended, and refund it.
        name, lock = self._new_name_and_lock()
        state = RunState() if state is None else state
        state.charge = ChargeState.HELD  # set first, as an interrupt may follow the written entry
        try:
            with Store.open(self.path) as store, store.transaction():
                # First: it gives back what runs have reserved that ended before they read a row.
                self._settle_abandoned(store)
                # Read again inside the transaction: another process may have spent budget since,
                # and two that both saw enough of it could spend it twice.
                known, now = self._state(store), periods.now_text()
                records = [self._charge_record(known, charge, cost, now) for charge, cost in costs]
                body = {
                    "kind": RESERVE,
                    "id": name,
                    "title": title,
                    "process": Process.current().to_json(),
                    "locked": True,
                    "time": now,
                    "charges": records,
                }
                entry = self._append(store, known, body)
                return Reservation(entry, lock=lock, accounts=known.accounts)
        except BaseException as problem:
            if isinstance(problem, BudgetError):
                state.charge = ChargeState.NONE
            else:
                self._cancel_failed_reservation(name, state)
            lock.release()
            raise

    def _new_name_and_lock(self) -> tuple[str, Lock]:
        """Return the name of a new reservation, and its lock, which this process now holds."""
        failure: LedgerError | None = None
        while failure is None:
            name = uuid4().hex
            try:
                lock = Lock.acquire(lock_path(self.path, name))
            except OSError as refused:
                failure = write_error(self.path, refused)
            else:
                if lock is not None:  # otherwise another process has just taken it as a leftover
                    return name, lock
        raise failure

    def _cancel_failed_reservation(self, name: str, state: RunState) -> None:
        """Refund the entry that a failed write may have left, and update `state`; never raise."""
        with suppress(Exception):  # if this fails, `recover` settles the entry later
            if name in self.state().reservations:
                self._step(name, CANCEL, {"why": "it could not be written"})
            state.charge = ChargeState.NONE

    def with_cost(self, accounts: Mapping[str, Account], charge: Charge) -> tuple[Charge, float]:
        """Return a charge with its cost; raise the errors of `reserve` on accounts and noise."""
        account = accounts.get(charge.table)
        if account is None:
            raise LedgerError(
                "DP-LEDGER-006",
                name=self.path.name,
                table=charge.table,
                nearest=nearest(charge.table, accounts),
                known=", ".join(accounts) or "none",
            )
        declared, found = (f"{one.neighbours} of {one.unit}" for one in (account, charge))
        if declared != found:
            raise LedgerError("DP-LEDGER-008", table=charge.table, declared=declared, found=found)
        for name in charge.invariants:
            if name not in account.invariants:
                raise invariant_error(self.path.name, account, name)
        return charge, cost_of_events(account, charge.events)

    def _charge_record(self, state: State, charge: Charge, cost: float, now: str) -> dict[str, Any]:
        """Return the JSON record of a charge; raise an error if the cost exceeds the budget."""
        account = state.accounts[charge.table]
        refuse_changed_functions(state, charge, self.path.name)
        period = open_period(state, charge.table, parse_utc_time(now))
        remaining = state.remaining_budget(charge.table, period)
        takes_all = False
        if not 0.0 <= cost <= remaining:  # a cost of NaN takes this branch too
            untouched = not any(True for _ in state.charges(charge.table, period))
            takes_all = untouched and fits_unused_budget(account, charge.events)
            if not takes_all:
                self._refuse_cost(account, charge, cost, remaining)
        return {
            "table": charge.table,
            "price": repr(cost),
            "counted": account.privacy_measure,
            "takes_all": takes_all,
            "events": [event.to_json() for event in charge.events],
            **invariants_record(charge),
            **({} if period is None else {"period": period}),
        }

    def _refuse_cost(self, account: Account, charge: Charge, cost: float, left: Fraction) -> None:
        """Raise DP-LEDGER-010 for a column with an infinite cost, or else DP-BUDGET-091."""
        if math.isinf(cost):
            event = next(e for e in charge.events if math.isinf(cost_of_events(account, [e])))
            raise LedgerError(
                "DP-LEDGER-010",
                table=account.table,
                column=f"{event.query}.{event.column}",
                counted=account.privacy_measure,
            )
        raise BudgetError(
            "DP-BUDGET-091",
            table=account.table,
            price=f"{cost:.6g}",
            left=f"{float(left):.6g}",
            amount=f"{float(account.amount):.6g}",
            counted=account.privacy_measure,
        )

    def read(self, reservation: Reservation) -> None:
        """Record that rows are about to be read, so that the release stays charged from now on."""
        self._advance(reservation, READ, {})

    def publish(self, reservation: Reservation) -> None:
        """Record that the release is about to become readable."""
        self._advance(reservation, PUBLISH, {})

    def commit(self, reservation: Reservation, manifest: str) -> None:
        """Record that the release is readable; `manifest` is the digest of its manifest."""
        self._advance(reservation, COMMIT, {"manifest": manifest})

    def fail(self, reservation: Reservation) -> None:
        """Record that the run failed after rows had been read: the release stays charged."""
        self._advance(reservation, COMMIT, {"manifest": None})

    def cancel(self, reservation: Reservation) -> None:
        """Refund a reservation whose run read no rows."""
        self._advance(reservation, CANCEL, {"why": "nothing was read or released"})

    def _advance(self, reservation: Reservation, kind: str, fields: dict[str, Any]) -> None:
        """Add an entry about a reservation of this process, and release its lock when it ends."""
        if not reservation.maker.is_here:
            raise LedgerError("DP-LEDGER-012", name=self.path.name, id=reservation.id)
        self._step(reservation.id, kind, fields)
        reservation.steps.append(kind)
        if not reservation.is_open and reservation.lock is not None:
            reservation.lock.release()

    def _step(self, name: str, kind: str, fields: dict[str, Any]) -> None:
        """Add an entry about a reservation; raise DP-LEDGER-009 if it can't be the next entry."""
        body = {"kind": kind, "id": name, "time": periods.now_text(), **fields}
        with Store.open(self.path) as store, store.transaction():
            state = self._state(store)
            reservation = state.reservations.get(name)
            if reservation is None or problem_of(reservation.steps, body) is not None:
                raise LedgerError("DP-LEDGER-009", name=self.path.name, id=name)
            self._append(store, state, body)

    @contextmanager
    def reserve_for_block(
        self, charges: Sequence[Charge], title: str, state: RunState
    ) -> Iterator[Reservation]:
        """Charge a release for the run in a `with` block, and settle the charge if the block fails.

        If the block fails before it reads anything, the charge is refunded. A later failure may
        reveal something about the rows, so the release stays charged, whatever the cause. The
        errors are those of `reserve`.
        """
        reservation: Reservation | None = None
        try:
            reservation = self.reserve(charges, title, state)
            yield reservation
        except BaseException:
            if reservation is not None:
                self._settle(reservation, state)
            raise
        finally:
            if reservation is not None and reservation.lock is not None:
                reservation.lock.release()

    def _settle(self, reservation: Reservation, state: RunState) -> None:
        """Record how a failed run ended; never raise.

        If the entry can't be written now, `recover` later writes the same entry, which follows from
        the entries so far. A child process that was forked during the run can't write the entry,
        because its parent may still be running.
        """
        # If the system could not say whether the release is readable (None), the reservation stays
        # open. `recover` keeps its charge, because the step `publish` was recorded.
        if not reservation.is_open or state.released is not False:
            return
        if not state.rows:
            with suppress(Exception):
                self.cancel(reservation)
                state.charge = ChargeState.NONE
                return
            is_read_recorded = False  # the entry may exist although writing it raised an error
            with suppress(Exception):
                is_read_recorded = READ in self.state().reservations[reservation.id].steps
            if not is_read_recorded:
                return
            state.charge = ChargeState.SPENT
        with suppress(Exception):
            self.fail(reservation)

    def recover(self, ended_hosts: Sequence[str] = ()) -> list[str]:
        """Settle the reservations of processes that have ended; return a sentence about each.

        `ended_hosts` has the names of machines of which the caller knows that no run is alive.
        """
        with Store.open(self.path) as store, store.transaction():
            return self._settle_abandoned(store, ended_hosts)

    def _settle_abandoned(self, store: Store, ended_hosts: Sequence[str] = ()) -> list[str]:
        """End the reservations of ended runs, and return a text on each of them."""
        texts = []
        state = self._state(store)
        reservations = state.reservations
        for name, path in lock_paths(self.path).items():
            if name not in reservations or not reservations[name].is_open:
                with suppress(OSError):
                    leftover = Lock.acquire(path)  # a run has ended without removing this file
                    if leftover is not None:
                        leftover.release()
        for reservation in reservations.values():
            host_ended = reservation.process.host in ended_hosts
            if not reservation.is_open or not (host_ended or reservation.is_abandoned(self.path)):
                continue
            title = reservation.entry.body["title"]
            body: dict[str, Any] = {"kind": COMMIT, "manifest": None}
            if PUBLISH in reservation.steps:
                texts.append(
                    f"{reservation.id} ({title}): may have been published; the charge remains"
                )
            elif READ in reservation.steps:
                texts.append(f"{reservation.id} ({title}): rows had been read; the charge remains")
            elif not reservation.records_reads:
                texts.append(f"{reservation.id} ({title}): may have read rows; the charge remains")
            else:
                body = {"kind": CANCEL, "why": "its run ended before it read a row"}
                texts.append(f"{reservation.id} ({title}): released nothing; charge returned")
            body = {**body, "id": reservation.id, "time": periods.now_text()}
            self._append(store, state, body)
            with suppress(OSError):
                lock_path(self.path, reservation.id).unlink()
        return texts
