"""The ledger forecast of a plan is what the ledger then allows."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import BudgetError, LedgerError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.planning.prepare import prepare
from dprelease.release.charging import charges_of
from dprelease.release.ledger_forecast import MENTIONED_COST_RATIO, Outlook
from dprelease.schema.load import read_declaration

TABLE = "office/people"
SCHEMA = """\
table: people
owner: office
privacy_unit: {id: person, max_groups: 1, max_rows_per_group: 1}
columns:
  person: {type: integer}
  city: {type: category, values: [Bern, Oslo], fill: Bern, others: Bern}
  age: {type: integer, lower: 0, upper: 100, fill: 0}
"""
COLUMNS = """\
queries:
  q:
    from: people
    group_by: [city]
    columns: {n: {count: "*"}, total: {sum: age}, middle: {median: age}}
"""
RECORDS = "mode: local\nrecords: {p: {from: people, columns: [city, age]}}\n"


def release(
    folder: Path,
    budget: str,
    mechanism: str = "discrete_laplace",
    asked: str = COLUMNS,
    ledger: str = "l",
) -> dprelease.Release:
    folder.mkdir(exist_ok=True)
    schema = (
        SCHEMA.replace("privacy_unit: {id: person, max_groups: 1, max_rows_per_group: 1}\n", "")
        if asked == RECORDS
        else SCHEMA
    )
    (folder / "people.yaml").write_text(schema)
    text = f"title: T\ntables: [people.yaml]\nbudget: {{{budget}}}\nmechanism: {mechanism}\n"
    path = folder / "release.yaml"
    path.write_text(text + asked + f"output: out\nledger: {ledger}\n")
    return dprelease.read_release(path)


def open_ledger(folder: Path, neighbours: str = "add_remove", **budget: str) -> Ledger:
    amounts: dict[str, Any] = {"epsilon": None, "delta": Fraction(0), "rho": None}
    amounts |= {name: Fraction(text) for name, text in budget.items()}
    folder.mkdir(exist_ok=True)
    found = Ledger(folder / "l")
    unit = "person" if neighbours == "add_remove" else "each row"
    found.open_account(Account(TABLE, neighbours, unit, **amounts))
    return found


def only_forecast(found: dprelease.Release) -> Outlook:
    (one,) = found.outlook() or ()
    return one


def count_paid(folder: Path, ledger: Ledger, most: int = 60) -> int:
    """Return how many releases of a file a ledger pays for."""
    declaration = read_declaration(folder / "release.yaml")
    charges = charges_of(prepare(declaration)[1])
    for number in range(most):
        try:
            ledger.reserve(charges, "T")
        except (BudgetError, LedgerError):
            return number
    return most


RELEASES = {
    "pure": ("epsilon: 1", "discrete_laplace"),
    "pure, with a delta": ("epsilon: 1, delta: 1e-9", "discrete_laplace"),
    "approximate": ("epsilon: 1, delta: 1e-9", "discrete_gaussian"),
    "rho": ("rho: 0.03", "discrete_gaussian"),
}
LEDGERS = {
    "pure": {"epsilon": "7/2"},
    "no more than one": {"epsilon": "1"},
    "approximate": {"epsilon": "4", "delta": "1e-9"},
    "small": {"epsilon": "1.05", "delta": "1e-9"},
    "rho": {"rho": "0.25"},
    "too small": {"rho": "0.001"},
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("has_paid", [False, True])
@pytest.mark.parametrize("ledger", LEDGERS)
@pytest.mark.parametrize("name", RELEASES)
def test_ledger_allows_as_many_releases_as_forecast(
    tmp_path: Path, name: str, ledger: str, has_paid: bool
) -> None:
    """Before the first release and after one; also with the suggested cheaper noise."""
    held = open_ledger(tmp_path, **LEDGERS[ledger])
    if has_paid:
        release(tmp_path, "epsilon: 0.01", "discrete_laplace")
        count_paid(tmp_path, held, most=1)
    budget, mechanism = RELEASES[name]
    found = release(tmp_path, budget, mechanism)
    before = len(held.history())
    told = only_forecast(found)
    assert len(held.history()) == before  # a plan charges nothing
    assert told.left == held.state().remaining_budget(TABLE)
    kept = held.path.read_bytes()
    assert count_paid(tmp_path, held) == told.fits
    if told.takes_all:
        assert (told.fits, has_paid) == (1, False)
        assert held.state().remaining_budget(TABLE) == 0
    if told.cheaper is not None:
        held.path.write_bytes(kept)
        less = only_forecast(release(tmp_path, budget, told.cheaper.mechanism))
        assert less.price == told.cheaper.price < MENTIONED_COST_RATIO * told.price
        assert count_paid(tmp_path, held) == less.fits == told.cheaper.fits > 0


def test_gaussian_noise_costs_less_rho(tmp_path: Path) -> None:
    open_ledger(tmp_path, rho="0.5")
    told = only_forecast(release(tmp_path, "epsilon: 1, delta: 1e-9"))
    assert told.cheaper is not None
    assert told.cheaper.mechanism == "discrete_gaussian"
    assert told.cheaper.price < told.price / 4
    assert 2 < told.cheaper.errors < 5
    assert only_forecast(release(tmp_path, "rho: 0.1", "discrete_gaussian")).cheaper is None


def test_forecast_covers_every_charged_table(tmp_path: Path) -> None:
    """A join of two tables is charged to both, each with its own budget."""
    held = open_ledger(tmp_path, rho="0.5")
    visits = Account("office/visits", "add_remove", "person", Fraction(7, 2), Fraction(0), None)
    held.open_account(visits)
    joined = COLUMNS.replace("group_by", "join: {table: visits, on_unit: true}\n    group_by")
    release(tmp_path, "epsilon: 1, delta: 1e-9")
    (tmp_path / "visits.yaml").write_text(
        "table: visits\nowner: office\nprivacy_unit: {id: person, max_groups: 1, max_rows_per_group: 1}\n"
        "columns: {person: {type: integer}, cost: {type: integer, lower: 0, upper: 9}}\n"
    )
    path = tmp_path / "release.yaml"
    text = path.read_text().replace("people.yaml", "people.yaml, visits.yaml")
    path.write_text(text.replace(COLUMNS, joined))
    found = dprelease.read_release(path)
    people, others = found.outlook() or ()
    assert (people.table, people.counted, people.fits) == (TABLE, "rho", 4)
    assert (others.table, others.counted, others.fits) == ("office/visits", "epsilon", 3)
    assert people.cheaper is not None
    assert (people.cheaper.mechanism, others.cheaper) == ("discrete_gaussian", None)
    assert count_paid(tmp_path, held) == 3
    assert [one.fits for one in found.outlook() or ()] == [1, 0]


def test_session_explain_shows_forecast(tmp_path: Path) -> None:
    import pandas as pd

    held = open_ledger(tmp_path, epsilon="7/2")
    release(tmp_path, "epsilon: 1")
    frame = pd.DataFrame({"person": [1, 2], "city": ["Bern", "Oslo"], "age": [30, 40]})
    for path, fits in ((held.path, [3, 2, 1, 0]), (None, [None])):
        session = dprelease.Session(tmp_path / "people.yaml", epsilon=9, ledger=path)
        frame.attrs.clear()
        frame.dp.use(session)
        for wanted in fits:
            told = frame.dp.explain("median", "age", epsilon=1).attrs["dprelease_answer"]["ledger"]
            assert (None if told is None else told["fits"]) == wanted
            if wanted:
                frame.dp.median("age", epsilon=1)
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        dprelease.sql("SELECT COUNT(*) AS n FROM people", tmp_path / "people.yaml", epsilon=1,
                      ledger=held.path, frames={"people": frame})  # fmt: skip


def test_forecast_of_local_releases(tmp_path: Path) -> None:
    open_ledger(tmp_path, "replace", epsilon="4")
    told = only_forecast(release(tmp_path, "epsilon: 1, neighbours: replace", asked=RECORDS))
    assert (told.fits, told.cheaper) == (4, None)
    assert told.price == pytest.approx(1, rel=1e-3)


def plan_text(tmp_path: Path, *more: str) -> str:
    done = CliRunner().invoke(cli.app, ["plan", str(tmp_path / "release.yaml"), *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_plan_command_shows_forecast(tmp_path: Path) -> None:
    held = open_ledger(tmp_path, epsilon="5/2")
    release(tmp_path, "epsilon: 1")
    words = plan_text(tmp_path)
    assert "l, office/people: 2.5 of 2.5 epsilon is left; this release would take " in words
    assert ": 2 like it fit." in words
    count_paid(tmp_path, held, most=2)
    told = json.loads(plan_text(tmp_path, "--json"))["ledger"]
    assert told["problem"] is None
    assert told["tables"][0]["fits"] == 0
    assert "and would be refused." in plan_text(tmp_path)
    release(tmp_path, "epsilon: 1, delta: 1e-9", "discrete_gaussian")
    words = plan_text(tmp_path)
    assert "this release can't be charged: its noise has no bound in epsilon" in words
    assert "With " not in words  # no pure budget fits into the remaining half
    open_ledger(tmp_path / "pure", epsilon="2")
    release(tmp_path / "pure", "epsilon: 1, delta: 1e-9", "discrete_gaussian")
    assert "With discrete_laplace noise it would take " in plan_text(tmp_path / "pure")
    whole = tmp_path / "whole"
    open_ledger(whole, epsilon="1.05", delta="1e-9")
    release(whole, "epsilon: 1, delta: 1e-9")
    assert "would take all of it, and no other fits." in plan_text(whole)
    local = tmp_path / "local"
    open_ledger(local, "replace", epsilon="3")
    release(local, "epsilon: 1, neighbours: replace", asked=RECORDS)
    assert ": 3 like it fit." in plan_text(local)


@pytest.mark.parametrize(
    ("opened", "code"),
    [
        ({}, "DP-LEDGER-001"),
        ({"table": "office/others"}, "DP-LEDGER-006"),
        ({"unit": "household"}, "DP-LEDGER-008"),
    ],
)
def test_plan_without_usable_ledger_shows_the_problem(
    tmp_path: Path, opened: dict[str, str], code: str
) -> None:
    """The plan shows why a run would be refused, and everything else as usual."""
    if opened:
        named = {"table": TABLE, "neighbours": "add_remove", "unit": "person", **opened}
        account = Account(epsilon=Fraction(1), delta=Fraction(0), rho=None, **named)
        Ledger(tmp_path / "l").open_account(account)
    found = release(tmp_path, "epsilon: 1")
    assert f"the ledger would refuse a run. {code}" in plan_text(tmp_path)
    assert json.loads(plan_text(tmp_path, "--json"))["ledger"]["problem"] == code
    with pytest.raises(LedgerError, match=code):
        found.outlook()


def test_plan_without_ledger_has_no_forecast(tmp_path: Path) -> None:
    release(tmp_path, "epsilon: 1")
    path = tmp_path / "release.yaml"
    path.write_text(path.read_text().replace("ledger: l\n", ""))
    assert dprelease.read_release(path).outlook() is None
    assert json.loads(plan_text(tmp_path, "--json"))["ledger"] is None
    assert "ledger" not in plan_text(tmp_path)
