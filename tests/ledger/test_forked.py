"""Children that are forked while a thread, or the forking one, has the ledger open."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import LedgerError
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.store import LOCK_SECONDS, Store
from tests import processes
from tests.ledger.test_ledger import account, charge
from tests.system.test_forks import told_by_child

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.sqlite")
    made.open_account(account(epsilon=Fraction(1)))
    return made


def charge_duration(ledger: Ledger) -> str:
    """Return how long it takes to charge, as text for a pipe.

    SQLite's own waiting is not fair, so that a charge among others may take seconds; one that waits
    for a lock that nobody holds any more takes all its patience.
    """
    begin = time.monotonic()
    ledger.cancel(ledger.reserve([charge()], "of the child"))
    return "at once" if time.monotonic() - begin < LOCK_SECONDS / 2 else "late"


class Reader:
    """A thread that holds the ledger as a reader until it is let go, or so many seconds."""

    def __init__(self, ledger: Ledger, seconds: float) -> None:
        self.reads, self.over = threading.Event(), threading.Event()
        self._ledger, self._seconds = ledger, seconds
        self._thread = threading.Thread(target=self._hold, daemon=True)

    def _hold(self) -> None:
        with Store.open(self._ledger.path) as store, store._read_snapshot():
            store.entries()
            self.reads.set()
            self.over.wait(self._seconds)

    def __enter__(self) -> Reader:
        self._thread.start()
        assert self.reads.wait(processes.PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join(processes.PATIENCE)


def test_child_forked_with_open_ledger_refuses_ledgers(ledger: Ledger) -> None:
    """Nor does a child of it; its parent goes on, and so do children that are forked later."""
    with Reader(ledger, processes.PATIENCE):
        words = told_by_child(lambda: charge_duration(ledger))
        again = told_by_child(lambda: told_by_child(lambda: charge_duration(ledger)))
    for said in (words, again):
        assert "DP-LEDGER-023" in said
        assert "no row was read, no budget was spent" in said
    assert charge_duration(ledger) == "at once"
    assert told_by_child(lambda: charge_duration(ledger)) == "at once"


@pytest.mark.parametrize("how", ["goes on", "raises", "ends"])
def test_fork_during_a_transaction_keeps_it_with_the_parent(how: str, ledger: Ledger) -> None:
    """As a handler of a signal may: the transaction, and its journal, are the parent's."""
    before = len(ledger.history())
    told, tell = os.pipe()
    child = -1
    words = ""
    try:
        with Store.open(ledger.path) as store, store.transaction():
            state = ledger._state(store)
            body = {"kind": "open", "account": account(epsilon=Fraction(1)).to_json()}
            body["account"]["table"] = "so/others"
            ledger._append(store, state, {**body, "time": "2026-01-01T00:00:00+00:00"})
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                if how == "raises":
                    raise RuntimeError("the child gives up")
                if how == "ends":
                    os._exit(0)
            else:
                os.close(tell)
                assert processes.ended(child) == 0
    except (LedgerError, RuntimeError) as error:
        words = str(error)
    if child == 0:
        os.write(tell, words.encode())
        os._exit(0)
    with open(told, encoding="utf-8") as answer:
        said = answer.read()
    assert {"goes on": "DP-LEDGER-023", "raises": "gives up", "ends": ""}[how] in said
    assert len(ledger.history()) == before + 1
    assert charge_duration(ledger) == "at once"


def test_multiprocessing_workers_use_ledgers(ledger: Ledger) -> None:
    worker = multiprocessing.get_context("fork").Process(target=charge_duration, args=(ledger,))
    worker.start()
    worker.join(processes.PATIENCE)
    assert worker.exitcode == 0
