"""Reservations, tampering, races and crashes: what is released is charged, once."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import BudgetError, LedgerError
from dprelease.errors import State as Told
from dprelease.ledger import store
from dprelease.ledger.account import Account, Charge, largest_rho
from dprelease.ledger.ledger import Ledger, Reservation
from dprelease.ledger.periods import Renewal
from dprelease.privacy.guarantee import Event
from dprelease.privacy.renyi import zcdp_epsilon
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.signatures.keys import signing_key
from tests import processes
from tests.release.build import RELEASE, SCHEMA, write
from tests.signatures.keys import copied, public

ROOT = Path(__file__).parents[2]
TABLE = "office/people"
EVERY_YEAR = Renewal("year", date(2020, 2, 3))


def account(**budget: Any) -> Account:
    found = {"epsilon": None, "delta": Fraction(0), "rho": None, **budget}
    return Account(TABLE, "add_remove", "person", **found)


def event(mechanism: str = "laplace", **parameters: str) -> Event:
    held = tuple(sorted((parameters or {"scale": "10.0"}).items()))
    return Event("q", "c", mechanism, held, Sensitivity(1, (Move(1, 1),)))


def charge(*events: Event, **other: str) -> Charge:
    named = {"table": TABLE, "neighbours": "add_remove", "unit": "person", **other}
    return Charge(events=events or (event(),), **named)  # type: ignore[arg-type]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger whose one table has epsilon 1: ten answers of Laplace noise of scale 10."""
    found = Ledger(tmp_path / "ledger.sqlite")
    found.open_account(account(epsilon=Fraction(1)))
    return found


def test_budget_is_spent_exactly(ledger: Ledger) -> None:
    for i in range(10):
        # Each price is 0.1 rounded up: the tenth would pass the budget by a few 1e-17.
        if i == 9:
            with pytest.raises(BudgetError, match="DP-BUDGET-091"):
                ledger.reserve([charge()], "a release")
            ledger.reserve([charge(event(scale="11.0"))], "a little less")
            break
        ledger.reserve([charge()], "a release")
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        ledger.reserve([charge(event(scale="1000.0")), charge(event(scale="10.0"))], "both or none")
    assert 0.99 < float(ledger.state().spent(TABLE)) <= 1


def test_ten_releases_of_a_tenth_fit(ledger: Ledger) -> None:
    """Releases of a declared 0.1 spend just below it: ten of them fit into 1 (V44)."""
    law = dprelease.calibrate("laplace", "0.1")
    tenth = charge(event(scale=repr(law.scale)))
    for _ in range(10):
        ledger.reserve([tenth], "a tenth")
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        ledger.reserve([charge(event(scale="1000000.0"))], "a little more")


@pytest.mark.parametrize("cost", [float("nan"), -1.0, float("-inf")])
def test_invalid_costs_are_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, cost: float
) -> None:
    """Whatever the accountant may say one day (V45)."""
    monkeypatch.setattr("dprelease.ledger.ledger.cost_of_events", lambda *_: cost)
    with pytest.raises((BudgetError, LedgerError), match=r"DP-BUDGET-091|DP-LEDGER-010"):
        ledger.reserve([charge()], "r")
    assert len(ledger.history()) == 1


def test_links_open_the_same_ledger(ledger: Ledger, tmp_path: Path) -> None:
    """Relative paths and symbolic links open the same budget; hard links are refused (V49)."""
    soft, hard = tmp_path / "soft.sqlite", tmp_path / "hard.sqlite"
    soft.symlink_to(ledger.path)
    for path in (soft, Path(os.path.relpath(ledger.path))):
        Ledger(path).reserve([charge()], "r")
    hard.hardlink_to(ledger.path)
    for path in (hard, ledger.path):
        with pytest.raises(LedgerError, match="DP-LEDGER-002"):
            Ledger(path).reserve([charge()], "r")
    hard.unlink()
    assert float(ledger.state().spent(TABLE)) == pytest.approx(0.2)


def test_steps_of_a_reservation(ledger: Ledger) -> None:
    given_back = ledger.reserve([charge()], "first")
    ledger.cancel(given_back)
    assert ledger.state().spent(TABLE) == 0
    kept = ledger.reserve([charge()], "second")
    ledger.publish(kept)
    for step in (ledger.publish, ledger.cancel):
        with pytest.raises(LedgerError, match="DP-LEDGER-009"):
            step(kept)
    ledger.commit(kept, "digest")
    with pytest.raises(LedgerError, match="DP-LEDGER-009"):
        ledger.commit(kept, "digest")
    with pytest.raises(LedgerError, match="DP-LEDGER-009"):
        ledger.publish(given_back)
    assert float(ledger.state().spent(TABLE)) == pytest.approx(0.1)
    assert [entry.kind for entry in ledger.history()] == [
        "open",
        "reserve",
        "cancel",
        "reserve",
        "publish",
        "commit",
    ]


def test_rho_adds_across_releases(tmp_path: Path) -> None:
    """Epsilon 1 at 1e-9 pays for more releases of 0.3 than adding epsilons would allow."""
    found = Ledger(tmp_path / "l.sqlite")
    delta = Fraction(1, 10**9)
    found.open_account(account(epsilon=Fraction(1), delta=delta))
    rho = largest_rho(Fraction(1), delta)
    assert zcdp_epsilon(rho, 1e-9) <= 1
    assert zcdp_epsilon(rho * 1.001, 1e-9) > 1
    gaussian = dprelease.calibrate("discrete_gaussian", "0.3", "1e-9")
    count = 0
    try:
        while True:
            found.reserve([charge(event("discrete_gaussian", scale=repr(gaussian.scale)))], "r")
            count += 1
    except BudgetError:
        assert count > 5
    assert float(found.state().spent(TABLE)) <= rho


def test_first_release_may_take_the_whole_budget(tmp_path: Path) -> None:
    """What fits the whole budget by its own loss distributions fits, alone and first."""
    found = Ledger(tmp_path / "l.sqlite")
    delta = Fraction(1, 10**9)
    found.open_account(account(epsilon=Fraction(1), delta=delta))
    law = dprelease.calibrate("discrete_gaussian", 1, "1e-9")
    whole = charge(event("discrete_gaussian", scale=repr(law.scale)))
    assert found.reserve([whole], "all").charge_of(TABLE)["takes_all"]  # type: ignore[index]
    assert found.state().remaining_budget(TABLE) == 0
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        found.reserve([charge(event(scale="1000000.0"))], "anything more")
    other = Ledger(tmp_path / "m.sqlite")
    other.open_account(account(epsilon=Fraction(1), delta=delta))
    other.reserve([charge(event(scale="1000.0"))], "a little first")
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        other.reserve([whole], "all")


def test_charges_to_wrong_accounts_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"DP-LEDGER-006.*\n?.*did you mean 'office/people'"):
        ledger.reserve([charge(table="office/peeple")], "r")
    with pytest.raises(LedgerError, match="DP-LEDGER-008"):
        ledger.reserve([charge(neighbours="replace")], "r")
    with pytest.raises(LedgerError, match="DP-LEDGER-008"):
        ledger.reserve([charge(unit="each row")], "r")
    with pytest.raises(LedgerError, match="DP-LEDGER-010"):
        ledger.reserve([charge(event(), event("gaussian", scale="10.0"))], "r")
    with pytest.raises(LedgerError, match="DP-LEDGER-007"):
        ledger.open_account(account(epsilon=Fraction(5)))
    with pytest.raises(LedgerError, match="DP-LEDGER-001"):
        Ledger(tmp_path / "none.sqlite").state()
    assert ledger.state().spent(TABLE) == 0


@contextmanager
def unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to write as somebody who is not this library, and leaves no trace."""
    with closing(sqlite3.connect(path)) as connection:
        for name in ("no_update", "no_delete"):
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for statement in store.TABLES[2:]:
            connection.execute(statement)
        connection.commit()


def raw(ledger: Ledger, *statements: str) -> None:
    with unguarded(ledger.path) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE entries SET body = replace(body, '"price": "0.1', '"price": "0.01') WHERE number = 2""",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries WHERE number = 3",
        "UPDATE head SET number = 2",
        "DELETE FROM head",
        "UPDATE entries SET number = number + 1 WHERE number = 3",
        "INSERT INTO entries SELECT 4, body, previous, 'x' FROM entries WHERE number = 3",
        "DROP TABLE head",
    ],
)
def test_edited_or_truncated_history_is_found(ledger: Ledger, statement: str) -> None:
    reservation = ledger.reserve([charge()], "r")
    ledger.publish(reservation)
    raw(ledger)
    assert ledger.state().reservations
    raw(ledger, statement)
    with pytest.raises(LedgerError, match="DP-LEDGER-002"):
        ledger.state()
    with pytest.raises(LedgerError, match="DP-LEDGER-002"):
        ledger.reserve([charge()], "r")


def test_rows_can_only_be_added(ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path)
    for statement in ("DELETE FROM entries", "UPDATE entries SET body = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            connection.execute(statement)
    connection.close()


def test_files_that_are_no_ledger_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_bytes(b"not a database" * 100)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    for path in (text, other):
        with pytest.raises(LedgerError, match="DP-LEDGER-002"):
            Ledger(path).state()
        with pytest.raises(LedgerError, match="DP-LEDGER-002"):
            Ledger(path).open_account(account(epsilon=Fraction(1)))
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data[:4096] + b"\xff" * 4096 + data[8192:])
    with pytest.raises(LedgerError, match="DP-LEDGER-002"):
        ledger.state()


def test_newer_ledger_format_is_refused(ledger: Ledger) -> None:
    raw(ledger, "PRAGMA user_version = 4")
    with pytest.raises(
        LedgerError, match=r"DP-LEDGER-003.*\n?.*format 4, and this version knows 3"
    ):
        ledger.state()


def test_lock_timeout_is_reported(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    connection = sqlite3.connect(ledger.path)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match="DP-LEDGER-004"):
        ledger.reserve([charge()], "r")
    connection.rollback()
    connection.close()
    ledger.reserve([charge()], "r")


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_full_and_read_only_disks_change_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A reservation that can't be written is not made; the history stays whole."""
    before = ledger.history()
    real = sqlite3.connect

    def broken(name: str, **options: Any) -> sqlite3.Connection:
        name = name.replace("mode=rw", "mode=ro") if fault == "read-only" else name
        connection = real(name, **options)
        if fault == "full":
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(store.sqlite3, "connect", broken)
    many = [event(scale=f"{1000000 + i}.0") for i in range(200)]
    with pytest.raises(LedgerError, match="DP-LEDGER-005") as caught:
        ledger.reserve([charge(*many)], "r")
    assert caught.value.exit_code == {"full": 1, "read-only": 2}[fault]
    monkeypatch.undo()
    assert ledger.history() == before


def _socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(os.path.relpath(path))  # the whole path may be longer than one may be


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices are made by root only")


MAKE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a link": lambda path: os.symlink("no", path),
    "a socket": _socket,
    "a device": _device,
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("thing", ["a pipe", "a folder", "a link", "a socket", "a device"])
@pytest.mark.parametrize("ending", store.JOURNAL_SUFFIXES)
def test_journals_that_are_no_files_are_refused(
    ledger: Ledger, ending: str, thing: str, linked: bool, tmp_path: Path
) -> None:
    """The database would wait for a pipe without end, and write wherever a link leads to."""
    before = ledger.history()
    odd = Path(f"{ledger.path}{ending}")
    MAKE[thing](odd)
    name = ledger.path
    if linked:
        (tmp_path / "links").mkdir()
        name = tmp_path / "links" / "l.sqlite"
        name.symlink_to(ledger.path)
    for question in (Ledger(name).history, lambda: Ledger(name).reserve([charge()], "r")):
        with pytest.raises(LedgerError, match="DP-LEDGER-025") as caught:
            question()
        assert f"'{odd.name}'" in caught.value.cause
        assert f"it is {thing}" in caught.value.cause
        assert caught.value.state is Told.NOTHING
    assert not os.path.exists(tmp_path / "no")
    odd.rmdir() if thing == "a folder" else odd.unlink()
    assert ledger.history() == before


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_ledger_removed_while_open_is_reported(ledger: Ledger, how: str) -> None:
    """It is not told as read-only: somebody else was at work on it."""

    def taken() -> None:
        with store.Store.open(ledger.path) as opened:
            opened.entries()
            ledger.path.unlink()
            if how == "replaced":
                ledger.path.write_bytes(b"")
            with opened.transaction():
                opened.append({"kind": "cancel", "id": "a" * 32, "time": "", "why": ""})

    with pytest.raises(LedgerError, match="DP-LEDGER-002") as caught:
        taken()
    assert "removed or replaced while it was open" in caught.value.cause


def test_run_without_ledger_leaves_no_folder(tmp_path: Path) -> None:
    path = release_with_ledger(tmp_path)
    (tmp_path / "ledger.sqlite").unlink()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LedgerError, match="DP-LEDGER-001") as caught:
        run(read_declaration(path))
    assert caught.value.state is Told.NOTHING
    assert sorted(tmp_path.iterdir()) == before


RACE = """
import os, sys
from pathlib import Path
from dprelease.errors import BudgetError
from tests.ledger.test_ledger import Ledger, charge, event
ledger = Ledger(Path(sys.argv[1]))
children = []
for i in range(32):
    child = os.fork()
    if child == 0:
        code = 2
        try:
            reservation = ledger.reserve([charge(event(scale="10.25"))], f"release {i}")
            ledger.publish(reservation)
            ledger.commit(reservation, "digest")
            code = 0
        except BudgetError:
            code = 1
        finally:
            os._exit(code)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(codes.count(0), codes.count(1), codes.count(2))
"""


def script(*words: str, patience: float = processes.PATIENCE) -> str:
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    done = processes.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
        patience=patience,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.share(0.4)
@pytest.mark.parametrize("renewal", [None, EVERY_YEAR], ids=["lasting", "renewing"])
def test_32_processes_do_not_exceed_the_budget(tmp_path: Path, renewal: Renewal | None) -> None:
    """Of epsilon 1, at 1 / 10.25 each, exactly ten fit, and of one that renews, in one period."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(account(epsilon=Fraction(1), renewal=renewal))
    assert script("-c", RACE, str(ledger.path)).split() == ["10", "22", "0"]
    state = ledger.state()
    assert sum(r.is_charged for r in state.reservations.values()) == 10
    period = state.period(TABLE, datetime.now(UTC))
    assert float(state.spent(TABLE, period)) == pytest.approx(10 / 10.25)


DYING = """
import os, sys
from pathlib import Path
from tests.ledger.test_ledger import Ledger, charge
ledger = Ledger(Path(sys.argv[1]))
for publishes in (False, True):
    child = os.fork()
    if child == 0:
        reservation = ledger.reserve([charge()], "published" if publishes else "not published")
        if publishes:
            ledger.publish(reservation)
        os._exit(9)
    os.waitpid(child, 0)
"""


def test_recover_reports_dead_runs(ledger: Ledger) -> None:
    alive = ledger.reserve([charge()], "still running")
    script("-c", DYING, str(ledger.path))
    words = ledger.recover()
    # The second child found the first one dead when it reserved: its own is left to settle.
    assert [line.split(" ", 1)[1] for line in words] == [
        "(published): may have been published; the charge remains"
    ]
    state = ledger.state()
    assert {
        (r.entry.body["title"], r.is_charged, r.is_open) for r in state.reservations.values()
    } == {
        ("still running", True, True),
        ("not published", False, False),
        ("published", True, False),
    }
    assert ledger.recover() == []
    ledger.cancel(alive)


def test_reservations_of_other_machines_are_kept(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    ledger.reserve([charge()], "elsewhere's")
    monkeypatch.undo()
    assert ledger.recover() == []
    assert len(ledger.recover(ended_hosts=["elsewhere"])) == 1
    assert ledger.state().spent(TABLE) == 0


def release_with_ledger(
    folder: Path, epsilon: str = "0.001", renewal: Renewal | None = None
) -> Path:
    """Return a small pure release whose table has 1000 times its price in a ledger beside it."""
    path = write(folder)
    (folder / "people.yaml").write_text(SCHEMA.replace("people\n", "people\nowner: office\n", 1))
    text = RELEASE.replace("epsilon: 1, delta: 1e-8", f"epsilon: {epsilon}")
    text = text.replace("discrete_gaussian", "laplace").replace("mechanism: gaussian, ", "")
    path.write_text(text + "ledger: ledger.sqlite\n")
    opened = account(epsilon=Fraction(epsilon) * 1000, renewal=renewal)
    Ledger(folder / "ledger.sqlite").open_account(opened)
    return path


def test_release_is_charged_and_bound_to_its_entry(tmp_path: Path) -> None:
    path = release_with_ledger(tmp_path)
    ledger = tmp_path / "ledger.sqlite"
    published = dprelease.read_release(path).run()
    assert dprelease.verify(published, ledger=ledger).ok
    copy = tmp_path / "old.sqlite"
    shutil.copy(ledger, copy)
    dprelease.read_release(path).run(overwrite=True)
    assert dprelease.verify(published, ledger=ledger).ok
    report = dprelease.verify(published, ledger=copy)  # rolled back to before the release
    assert [finding.code for finding in report.findings] == ["DP-VERIFY-010"]
    kept = ledger.read_bytes()
    ledger.write_bytes(copy.read_bytes())
    with pytest.raises(LedgerError, match="DP-LEDGER-011"):
        dprelease.read_release(path).run(overwrite=True)
    ledger.write_bytes(kept)
    with pytest.raises(LedgerError, match="DP-LEDGER-013"):
        dprelease.verify(published, ledger=tmp_path / "none.sqlite")
    state = Ledger(ledger).state()
    assert float(state.spent(TABLE)) == pytest.approx(0.002, rel=1e-3)


def test_failure_is_charged_only_after_rows_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = release_with_ledger(tmp_path)
    source = tmp_path / "people.csv"
    kept = source.read_bytes()
    source.unlink()
    with pytest.raises(dprelease.errors.DataError):
        dprelease.read_release(path).run()
    assert Ledger(tmp_path / "ledger.sqlite").state().spent(TABLE) == 0
    source.write_bytes(kept)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dprelease.release.runs.family_run.write_pieces", full)
    with pytest.raises(dprelease.errors.OutputError) as caught:
        dprelease.read_release(path).run()
    assert caught.value.state is dprelease.errors.State.CHARGED
    assert float(Ledger(tmp_path / "ledger.sqlite").state().spent(TABLE)) > 0
    assert not (tmp_path / "out" / "people").exists()


def test_ledger_locked_before_rename_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows had been read by then: the message says so, the run is charged, nothing is readable."""
    path = release_with_ledger(tmp_path)

    def locked(*_: object) -> None:
        raise LedgerError("DP-LEDGER-004", name="ledger.sqlite")

    monkeypatch.setattr(Ledger, "publish", locked)
    with pytest.raises(LedgerError) as caught:
        dprelease.read_release(path).run()
    assert caught.value.state is dprelease.errors.State.CHARGED
    assert float(Ledger(tmp_path / "ledger.sqlite").state().spent(TABLE)) > 0
    assert not (tmp_path / "out" / "people").exists()


def test_memory_error_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only happens because of the data must not be free (V75)."""
    path = release_with_ledger(tmp_path)

    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("dprelease.noise.noised_answers.perturb_in_batches", exhausted)
    with pytest.raises(MemoryError):
        dprelease.read_release(path).run()
    state = Ledger(tmp_path / "ledger.sqlite").state()
    assert float(state.spent(TABLE)) > 0
    assert not any(r.is_open for r in state.reservations.values())


def test_session_charges_its_table(tmp_path: Path) -> None:
    import pandas as pd

    release_with_ledger(tmp_path)
    path = tmp_path / "ledger.sqlite"
    frame = pd.read_csv(tmp_path / "people.csv", dtype_backend="pyarrow")
    session = dprelease.Session(tmp_path / "people.yaml", epsilon=10, ledger=path)
    frame.dp.use(session)
    frame.dp.count(by="city", epsilon="0.4", mechanism="laplace")
    assert float(Ledger(path).state().spent(TABLE)) == pytest.approx(0.4, rel=1e-3)
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        frame.dp.count(by="city", epsilon="0.7", mechanism="laplace")
    assert session.spent.epsilon == Fraction("0.4")
    frame.dp.count(by="city", epsilon="0.5", mechanism="laplace")
    schema = tmp_path / "nobody.yaml"
    schema.write_text(SCHEMA)
    with pytest.raises(dprelease.errors.DeclarationError, match="DP-RELEASE-011"):
        dprelease.Session(schema, epsilon=1, ledger=path)
    with pytest.raises(dprelease.errors.DeclarationError, match="DP-RELEASE-011") as refused:
        dprelease.sql("SELECT COUNT(*) FROM people", schema, epsilon=1, ledger=path)
    assert refused.value.place == dprelease.errors.Place("sql", None, "ledger")  # without a file


def test_ledger_commands(tmp_path: Path) -> None:
    runner = CliRunner()
    release_with_ledger(tmp_path)
    path = str(tmp_path / "ledger.sqlite")
    for words, code, text in (
        (["init", path, "--table", "trips", "--owner", "office", "--rho", "0.5"], 0, "0.5 rho"),
        (["init", path, "--table", "trips", "--owner", "office", "--rho", "1"], 2, "DP-LEDGER-007"),
        (["init", path, "--table", "x", "--owner", "o"], 3, "DP-BUDGET-006"),
        (["init", path, "--table", "x", "--owner", "o", "--epsilon", "-1"], 3, "DP-BUDGET-001"),
        (["init", path, "--table", "x", "--owner", "o", "--epsilon", "nan"], 3, "DP-BUDGET-001"),
        (["show", path], 0, "office/trips"),
        (["history", path], 0, "office/people: epsilon 1"),
        (["recover", path], 0, "Nothing to recover."),
        (["export", path], 0, '"digest"'),
        (["check", path], 0, "2 entries follow from each other"),
        (["show", str(tmp_path / "none.sqlite")], 2, "DP-LEDGER-001"),
        (
            ["init", str(tmp_path / "no" / "l"), "--table", "x", "--owner", "o", "--rho", "1"],
            2,
            "its folder does not exist",
        ),
    ):
        done = runner.invoke(cli.app, ["ledger", *words])
        assert (done.exit_code, text in done.stdout + done.stderr) == (code, True), done.output


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("steps", "17"),
        ("instants", "4"),
        pytest.param("steps", "1", marks=pytest.mark.audit),
        pytest.param("instants", "200", marks=pytest.mark.audit),
    ],
)
def test_kills_keep_ledger_and_releases_consistent(mode: str, number: str, tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    command = ("-m", "tests.ledger.crash", str(tmp_path), mode, number)
    assert "killed" in script(*command, patience=7200)


@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("steps", "25"),
        pytest.param("steps", "1", marks=pytest.mark.audit),
        pytest.param("instants", "200", marks=pytest.mark.audit),
    ],
)
def test_kills_with_signed_renewing_ledgers(mode: str, number: str, tmp_path: Path) -> None:
    """What is readable is charged in its period and signed, and who recovers signs for it."""
    release_with_ledger(tmp_path, renewal=EVERY_YEAR)
    key = copied(tmp_path)
    Ledger(tmp_path / "ledger.sqlite", signing_key(key)).set_signers(f"me {public()}\n")
    command = ("-m", "tests.ledger.crash", str(tmp_path), mode, number, str(key))
    assert "killed" in script(*command, patience=7200)


def test_reservations_name_their_charges(ledger: Ledger) -> None:
    found: Reservation = ledger.reserve([charge()], "r")
    assert found.charge_of(TABLE) is not None
    assert found.charge_of("office/other") is None


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(10**13), Fraction(10**12)])
def test_unreadable_amounts_are_not_written(tmp_path: Path, epsilon: Fraction) -> None:
    ledger = Ledger(tmp_path / "own.sqlite")
    odd = Account("office/people", "add_remove", "person", epsilon, Fraction(0), None)
    if epsilon == 10**12:
        ledger.open_account(odd)
        assert ledger.state().accounts["office/people"].epsilon == epsilon
        return
    with pytest.raises(ValueError, match="no entry"):
        ledger.open_account(odd)
    assert ledger.state().accounts == {}


def test_budgets_with_invariants(tmp_path: Path) -> None:
    """They are named when the budget is opened, and stand in the ledger from then on."""
    path, name = tmp_path / "ledger.sqlite", "count of rows by state, of people"
    asked = ["ledger", "init", str(path), "--table", "people", "--owner", "office", "--rho", "1"]
    asked += ["--invariant", name]
    refused = CliRunner().invoke(cli.app, asked)
    assert "DP-LEDGER-021" in refused.stderr
    assert not path.exists()
    made = CliRunner().invoke(cli.app, [*asked, "--neighbours", "replace"])
    assert f"publish outside the budget, exactly: {name}." in " ".join(made.stdout.split()), (
        made.output
    )
    for command in ("show", "history"):
        told = CliRunner().invoke(cli.app, ["ledger", command, str(path)])
        assert "exactly" in told.stdout, command
    assert Ledger(path).state().accounts["office/people"].invariants == (name,)
    assert CliRunner().invoke(cli.app, ["ledger", "check", str(path)]).exit_code == 0
