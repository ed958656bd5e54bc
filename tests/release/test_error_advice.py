"""Errors after a release is readable never advise to run it again."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import (
    ChargeState,
    DpReleaseError,
    EndedError,
    Findings,
    LedgerError,
    RunState,
)
from dprelease.errors.state import ADVICE_IF_PUBLISHED, CHECK_FIRST, State
from dprelease.ledger import store
from dprelease.ledger.ledger import Ledger
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.ledger.test_ledger import release_with_ledger

THEN = {
    State.RELEASED: RunState(rows=True, released=True),
    State.PAID: RunState(rows=True, charge=ChargeState.SPENT, released=True),
}


@pytest.mark.parametrize("state", THEN)
def test_errors_advise_by_state(state: State) -> None:
    def errors() -> list[DpReleaseError]:
        full = LedgerError("DP-LEDGER-005", name="l", problem="the disk is full")
        return [full, EndedError(15, State.NOTHING), Findings([full, full])]

    for error in errors():
        with pytest.raises(DpReleaseError) as caught, THEN[state].add_state_to_errors():
            raise error
        assert caught.value.state is state
        assert caught.value.fix == ADVICE_IF_PUBLISHED[state]
        assert "run again." not in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("state", THEN)
def test_other_exceptions_get_advice_as_notes(state: State) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, THEN[state].add_state_to_errors():
        raise KeyboardInterrupt
    assert caught.value.__notes__ == [
        f"Fix    {ADVICE_IF_PUBLISHED[state]}",
        f"State  {state.value}.",
    ]


def test_unknown_state_advises_to_check_first() -> None:
    error = LedgerError("DP-LEDGER-005", name="l", problem="the disk is full")
    fix = error.fix
    for _ in range(2):
        error.set_state(State.UNKNOWN)
    assert error.fix == f"{CHECK_FIRST}{fix}"
    error.set_state(State.CHARGED)


def test_full_disk_after_rename_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger can't store the commit; the next `recover` does."""
    path = release_with_ledger(tmp_path)
    real = Ledger.commit

    class Full(sqlite3.OperationalError):
        sqlite_errorname = "SQLITE_FULL"

    def commit(ledger: Ledger, *given: Any) -> None:
        with store._translate_errors(ledger.path):
            raise Full

    monkeypatch.setattr(Ledger, "commit", commit)
    with pytest.raises(LedgerError, match="DP-LEDGER-005") as caught:
        run(read_declaration(path))
    monkeypatch.setattr(Ledger, "commit", real)
    assert (caught.value.state, caught.value.fix) == (State.PAID, ADVICE_IF_PUBLISHED[State.PAID])
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert len(ledger.recover()) == 1
    (held,) = ledger.state().reservations.values()
    assert held.is_charged
