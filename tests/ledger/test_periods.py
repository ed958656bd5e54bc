"""Renewing budgets: each charge belongs to one period, never earlier than the last charge."""

from __future__ import annotations

import calendar
import json
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import canonical
from dprelease.errors import BudgetError, LedgerError
from dprelease.ledger import periods
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.lifetime import lifetime_of
from dprelease.ledger.periods import Renewal
from dprelease.release.accounts import check_recorded_costs, read_ledger, renewal_of
from tests.ledger.test_history import rewrite_entries
from tests.ledger.test_ledger import TABLE, account, charge, event, release_with_ledger
from tests.manifest_files import with_digest

DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Clock:
    """The current time of the machine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.time = at("2026-03-01T12:00:00")
        patch.setattr(periods, "now", lambda: self.time)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def renewing(folder: Path, renewal: Renewal, **budget: Any) -> Ledger:
    found = Ledger(folder / "ledger.sqlite")
    found.open_account(account(**(budget or {"epsilon": Fraction(1)}), renewal=renewal))
    return found


YEARLY = Renewal("year", date(2026, 1, 1))


@pytest.mark.parametrize("every", ["month", "year"])
@pytest.mark.parametrize("begins", ["2026-01-01", "2024-02-28", "2023-12-15", "1999-07-28"])
def test_every_moment_is_in_exactly_one_period(every: str, begins: str) -> None:
    """Of thirty years, day by day, as one counts them on a calendar; boundaries to the second."""
    renewal = Renewal(every, date.fromisoformat(begins))
    first, number = renewal.begins, 0
    assert renewal.start(0) == first
    for _ in range(366 * 30):
        following = renewal.start(number + 1)
        day = first
        if day == following:
            number += 1
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        assert renewal.period_at(midnight) == number
        assert renewal.period_at(midnight + DAY - timedelta(seconds=1)) == number
        first += DAY
    months = number * (12 if every == "year" else 1)
    assert months >= 12 * 29 - 12
    before = at(begins) - timedelta(seconds=1)
    assert renewal.period_at(before) == -1
    # A period of another time zone's midnight is that of UTC.
    eastern = datetime.fromisoformat(f"{begins}T00:30:00+01:00")
    assert renewal.period_at(eastern) == -1
    longest = 366 if every == "year" else 31
    lengths = {(renewal.start(i + 1) - renewal.start(i)).days for i in range(120)}
    assert lengths <= ({365, 366} if every == "year" else {28, 29, 30, 31})
    assert max(lengths) == longest
    assert calendar.isleap(2024)


@pytest.mark.parametrize(
    ("every", "begins", "number", "problem"),
    [
        ("week", None, None, "every month or year"),
        ("YEAR", None, None, "every month or year"),
        ("year", "2026-02-30", None, "day"),
        ("year", "2026-1-1", None, "isoformat|day"),
        ("year", "20260101", None, "YYYY-MM-DD"),
        ("year", "next", None, "isoformat"),
        ("month", "2026-01-29", None, "1 to 28"),
        ("month", "2026-01-31", None, "1 to 28"),
        ("year", "0001-01-01", None, "1 to 28"),
        ("year", None, 0, "from 1 to"),
        ("year", None, -1, "from 1 to"),
        ("year", None, 10**9, "from 1 to"),
        (None, "2026-01-01", None, "not how often"),
        (None, None, 3, "not how often"),
    ],
)
def test_invalid_renewals_are_refused(
    every: str | None, begins: str | None, number: int | None, problem: str
) -> None:
    with pytest.raises(LedgerError, match=f"DP-LEDGER-017.*({problem})"):
        renewal_of(every, begins, number)


def test_each_period_has_the_budget(tmp_path: Path, clock: Clock) -> None:
    ledger = renewing(tmp_path, YEARLY)
    first = lifetime_of(ledger.state(), TABLE, clock.time)
    assert "in the data of the first period may reach epsilon 1," in first.words
    for year in (2026, 2027, 2031):
        clock.time = at(f"{year}-06-01T00:00:00")
        for _ in range(9):
            ledger.reserve([charge()], "a release")
        with pytest.raises(BudgetError, match="DP-BUDGET-091"):
            ledger.reserve([charge(event(scale="5.0"))], "more than is left of this year")
    state = ledger.state()
    for period, spent in ((0, 0.9), (1, 0.9), (2, 0), (5, 0.9)):
        assert float(state.spent(TABLE, period)) == pytest.approx(spent)
    lifetime = lifetime_of(state, TABLE, clock.time)
    assert float(lifetime.charged) == pytest.approx(2.7)
    assert lifetime.elapsed_periods == 6
    assert "all 6 periods so far may reach epsilon 6" in lifetime.words
    assert "epsilon 1 more with every further year" in lifetime.words
    check_recorded_costs(ledger.path)
    for asked in (state.spent, state.remaining_budget):  # nobody forgets which period is meant
        with pytest.raises(ValueError, match="period is needed"):
            asked(TABLE)


def test_clock_set_back_opens_no_earlier_period(tmp_path: Path, clock: Clock) -> None:
    """Neither what was left of one that is over, nor a period a second time."""
    ledger = renewing(tmp_path, YEARLY)
    clock.time = at("2026-12-31T23:59:59")
    ledger.reserve([charge()], "a little of 2026")
    clock.time = at("2027-01-01T00:00:00")
    for _ in range(9):
        ledger.reserve([charge()], "most of 2027")
    for back in ("2026-12-31T23:59:59", "2026-01-01T00:00:00", "2020-01-01T00:00:00"):
        clock.time = at(back)
        with pytest.raises(BudgetError, match="DP-BUDGET-091"):
            ledger.reserve([charge(event(scale="5.0"))], "what 2026 would have")
    small = ledger.reserve([charge(event(scale="1000.0"))], "a little")
    held = small.charge_of(TABLE)
    assert held is not None
    assert held["period"] == 1
    assert small.entry.body["time"].startswith("2020")  # the entry tells what the clock said
    # A step of a run is an entry, too: what it tells of the time counts.
    clock.time = at("2029-05-05T00:00:00")
    ledger.cancel(small)
    clock.time = at("2027-06-01T00:00:00")
    later = ledger.reserve([charge()], "r").charge_of(TABLE)
    assert later is not None
    assert later["period"] == 3


def test_run_is_charged_to_the_period_of_its_reservation(tmp_path: Path, clock: Clock) -> None:
    ledger = renewing(tmp_path, YEARLY)
    clock.time = at("2026-12-31T23:59:59")
    reservation = ledger.reserve([charge()], "over New Year")
    clock.time = at("2027-01-01T00:00:01")
    ledger.read(reservation)
    ledger.publish(reservation)
    ledger.commit(reservation, "d" * 64)
    state = ledger.state()
    assert float(state.spent(TABLE, 0)) == pytest.approx(0.1)
    assert state.spent(TABLE, 1) == 0
    given_back = ledger.reserve([charge()], "r")
    clock.time = at("2028-01-01T00:00:01")
    ledger.cancel(given_back)
    assert ledger.state().spent(TABLE, 1) == 0


def test_times_outside_all_periods_are_refused(tmp_path: Path, clock: Clock) -> None:
    ledger = renewing(tmp_path, Renewal("month", date(2026, 2, 1), 2))
    for time, problem in (
        ("2026-01-31T23:59:59", "begins on 2026-02-01"),
        ("2026-04-01T00:00:00", "ended before 2026-04-01"),
    ):
        clock.time = at(time)
        folder = tmp_path / time[:10]
        folder.mkdir()
        ledger = renewing(folder, Renewal("month", date(2026, 2, 1), 2))
        with pytest.raises(LedgerError, match=f"DP-LEDGER-014.*{problem}"):
            ledger.reserve([charge()], "r")
        (row,) = read_ledger(ledger.path).to_json()
        assert row["left"] == 0
        assert "none now" in row["renewal"]["words"]
        assert len(ledger.history()) == 1
    assert "epsilon 2 in all 2 periods" in row["renewal"]["words"]


def test_first_release_may_take_a_whole_period(tmp_path: Path, clock: Clock) -> None:
    """What fits an (epsilon, delta) by its own composition fits once in each period."""
    delta = Fraction(1, 10**9)
    ledger = renewing(tmp_path, YEARLY, epsilon=Fraction(1), delta=delta)
    law = dprelease.calibrate("discrete_gaussian", 1, "1e-9")
    whole = charge(event("discrete_gaussian", scale=repr(law.scale)))
    for year in (2026, 2027):
        clock.time = at(f"{year}-02-01T00:00:00")
        held = ledger.reserve([whole], "all").charge_of(TABLE)
        assert held is not None
        assert held["takes_all"]
        with pytest.raises(BudgetError, match="DP-BUDGET-091"):
            ledger.reserve([charge(event(scale="1000000.0"))], "anything more")
    words = lifetime_of(ledger.state(), TABLE, clock.time).words
    assert "may reach epsilon 2 at delta 0.000000002" in words
    check_recorded_costs(ledger.path)


def change_charge(**changes: Any) -> Any:
    return lambda bodies: bodies[-1]["charges"][0].update(changes)


FORGED = {
    "an earlier period": change_charge(period=0),
    "a later period": change_charge(period=2),
    "a period below the first": change_charge(period=-1),
    "no period": lambda bodies: bodies[-1]["charges"][0].pop("period"),
    "a period that is no number": change_charge(period="1"),
    "an earlier time": lambda bodies: bodies[-1].update(time="2026-12-31T23:59:59+00:00"),
    "no time": lambda bodies: bodies[-1].update(time="now"),
    "a time before all years": lambda bodies: bodies[-1].update(time="0001-01-01T00:00:00+23:59"),
    "a time of no zone": lambda bodies: bodies[-1].update(time="2027-05-01T00:00:00"),
    "another beginning": lambda bodies: bodies[0]["account"]["renews"].update(begins="2024-01-01"),
    "no day": lambda bodies: bodies[0]["account"]["renews"].update(begins="someday"),
    "another rhythm": lambda bodies: bodies[0]["account"]["renews"].update(every="week"),
    "fewer periods": lambda bodies: bodies[0]["account"]["renews"].update(periods=1),
    "no renewal": lambda bodies: bodies[0]["account"].pop("renews"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_forged_periods_are_found(tmp_path: Path, clock: Clock, case: str) -> None:
    """With right digests throughout: by whoever can write the file."""
    ledger = renewing(tmp_path, YEARLY)
    ledger.reserve([charge()], "2026")
    clock.time = at("2027-05-01T00:00:00")
    ledger.reserve([charge()], "2027")
    ledger.state()
    rewrite_entries(ledger.path, FORGED[case])
    for use in (ledger.state, ledger.recover, lambda: ledger.reserve([charge()], "r")):
        with pytest.raises(LedgerError, match="DP-LEDGER-002"):
            use()


def test_renewals_raise_the_ledger_format(tmp_path: Path) -> None:
    import sqlite3

    def form(path: Path) -> int:
        with sqlite3.connect(path) as connection:
            found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.close()
        return found

    ledger = Ledger(tmp_path / "plain.sqlite")
    ledger.open_account(account(epsilon=Fraction(1)))
    ledger.reserve([charge()], "r")
    assert form(ledger.path) == 2  # which they know
    other = renewing(tmp_path, Renewal("year", date(2020, 1, 1)))
    assert form(other.path) == 3
    other.reserve([charge()], "r")
    assert form(other.path) == 3


def test_plans_and_manifests_name_the_period(tmp_path: Path, clock: Clock) -> None:
    """Plans, manifests and `ledger show` state the total over all periods."""
    path = release_with_ledger(tmp_path, renewal=YEARLY)
    ledger = tmp_path / "ledger.sqlite"
    clock.time = at("2028-01-01T00:00:00")
    planned = CliRunner().invoke(cli.app, ["plan", str(path)])
    assert "all 3 periods so far may reach epsilon 3" in " ".join(planned.stdout.split())
    published = dprelease.read_release(path).run()
    record = json.loads((published / "manifest.json").read_text())
    (told,) = record["ledger"]["renewals"]
    assert (told["period"], told["from"], told["until"]) == (2, "2028-01-01", "2029-01-01")
    assert "may reach epsilon 3" in told["words"]
    clock.time = at("2035-01-01T00:00:00")  # as of the charge, whenever it is checked
    assert dprelease.verify(published, ledger=ledger).ok
    assert dprelease.verify(published).ok
    shown = CliRunner().invoke(cli.app, ["ledger", "show", str(ledger)])
    assert "all 10 periods so far may reach epsilon 10" in " ".join(shown.stdout.split())
    history = CliRunner().invoke(cli.app, ["ledger", "history", str(ledger)])
    assert "in period 3" in " ".join(history.stdout.split())
    record["ledger"]["renewals"][0]["words"] = "It is given once."
    (published / "manifest.json").write_bytes(canonical(with_digest(record)))
    report = dprelease.verify(published, ledger=ledger)
    assert {finding.code for finding in report.findings} == {"DP-VERIFY-002", "DP-VERIFY-010"}


def test_ledger_commands_with_periods(tmp_path: Path, clock: Clock) -> None:
    path = str(tmp_path / "l.sqlite")
    own = ["--owner", "o", "--epsilon", "1"]
    for words, code, text in (
        (["init", path, "--table", "a", *own, "--every", "year"], 0, "2026-01-01 on"),
        (["init", path, "--table", "b", *own, "--every", "month"], 0, "2026-03-01 on"),
        (["init", path, "--table", "c", *own, "--every", "year", "--begins", "2026-07-01"], 0, "none now"),
        (["init", path, "--table", "d", *own, "--every", "year", "--periods", "5"], 0, "epsilon 5 in all 5"),
        (["init", path, "--table", "e", *own, "--every", "day"], 2, "DP-LEDGER-017"),
        (["init", path, "--table", "e", *own, "--begins", "2026-01-01"], 2, "DP-LEDGER-017"),
        (["init", path, "--table", "e", *own, "--every", "year", "--begins", "x"], 2, "DP-LEDGER-017"),
        (["show", path, "--json"], 0, '"periods_so_far": 1'),
        (["history", path, "--wide"], 0, "every month from 2026-03-01 on"),
        (["check", path], 0, "4 budgets are kept"),
    ):  # fmt: skip
        done = CliRunner().invoke(cli.app, ["ledger", *words])
        found = " ".join(done.output.split())
        assert (done.exit_code, text in found) == (code, True), (words, done.output)
