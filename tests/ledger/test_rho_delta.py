"""Budgets with a part of delta for private keys, which many releases may share."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import BudgetError, LedgerError
from dprelease.ledger.account import cost_of_events, largest_rho, vectors_of
from dprelease.ledger.ledger import Ledger
from dprelease.privacy.renyi import approximate_rho_of, zcdp_epsilon
from tests.ledger.test_ledger import account, charge, event

DELTA, RHO_DELTA = Fraction(1, 10**6), Fraction(4, 10**7)


SCHEMA = {
    "table": "people",
    "owner": "office",
    "privacy_unit": {"id": "person", "max_groups": 1, "max_rows_per_group": 1},
    "columns": {"person": {"type": "integer"}, "state": {"type": "text"}},
}
FRAME = pd.DataFrame({"person": range(300), "state": ["a", "b", "c"] * 100})


def selection(scale: str, delta: str) -> Any:
    return event("partition_selection", scale=scale, delta=delta)


def gaussian(scale: str) -> Any:
    return event("discrete_gaussian", scale=scale)


def shared(**budget: Any) -> Any:
    return account(**{"epsilon": Fraction(3), "delta": DELTA, "rho_delta": RHO_DELTA, **budget})


def test_the_rest_of_delta_determines_rho() -> None:
    assert shared().amount == Fraction(largest_rho(Fraction(3), DELTA - RHO_DELTA))
    assert shared().amount < Fraction(largest_rho(Fraction(3), DELTA))
    assert zcdp_epsilon(float(shared().amount), float(DELTA - RHO_DELTA)) <= 3
    assert shared(epsilon=None, rho=Fraction(1, 2)).amount == Fraction(1, 2)


def test_noise_with_a_rho_costs_its_rho() -> None:
    events = [gaussian("10.0"), event(scale="10.0")]
    assert cost_of_events(shared(), events) == cost_of_events(shared(rho_delta=Fraction(0)), events)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["1e-7", "3e-8", "1e-9"]), st.sampled_from(["2.0", "40.0"])),
        min_size=1,
        max_size=8,
    )
)
def test_costs_within_the_budget_bound_rho_and_delta(kinds: list[tuple[str, str]]) -> None:
    """Without this implication, the ledger would promise an epsilon that does not hold."""
    own, releases = shared(), [[selection(scale, delta)] for delta, scale in kinds]
    cost = sum((Fraction(cost_of_events(own, events)) for events in releases), Fraction(0))
    rho, delta = approximate_rho_of(vectors_of([one for events in releases for one in events]))
    assert delta > 0
    if cost <= own.amount:
        assert delta <= RHO_DELTA
        assert Fraction(rho) <= own.amount
        assert zcdp_epsilon(rho, float(DELTA - delta)) <= 3


@pytest.mark.parametrize(("scale", "delta", "fit"), [("100.0", "1e-7", 4), ("100.0", "9e-8", 4)])
def test_rho_delta_is_never_exceeded(tmp_path: Path, scale: str, delta: str, fit: int) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.open_account(shared())
    for _ in range(fit):
        ledger.reserve([charge(selection(scale, delta))], "a release")
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        ledger.reserve([charge(selection(scale, delta))], "one too many")


def test_selections_after_other_releases_need_rho_delta(tmp_path: Path) -> None:
    for budget, fits in ((shared(), True), (shared(rho_delta=Fraction(0)), False)):
        ledger = Ledger(tmp_path / f"{fits}.sqlite")
        ledger.open_account(budget)
        ledger.reserve([charge(gaussian("100.0"))], "first")
        found = charge(gaussian("100.0"), selection("100.0", "1e-8"))
        if fits:
            ledger.reserve([found], "keys")
            continue
        with pytest.raises(LedgerError, match="DP-LEDGER-010"):
            ledger.reserve([found], "keys")


@pytest.mark.parametrize(
    "options",
    [
        ("--epsilon", "1", "--rho-delta", "1e-7"),
        ("--epsilon", "1", "--delta", "1e-7", "--rho-delta", "1e-7"),
        ("--epsilon", "1", "--delta", "1e-7", "--rho-delta", "2e-7"),
    ],
)
def test_rho_delta_above_delta_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    first = ("ledger", "init", str(tmp_path / "l.sqlite"), "--table", "people", "--owner", "office")
    refused = CliRunner().invoke(cli.app, [*first, *options])
    assert refused.exit_code != 0
    assert "DP-LEDGER-026" in refused.stderr
    assert not (tmp_path / "l.sqlite").exists()


@pytest.mark.parametrize("budget", [{"rho": 0.01, "delta": 1e-7}, {"epsilon": 1, "delta": 1e-7}])
@pytest.mark.parametrize(
    "account_options",
    [
        ("--rho", "1", "--rho-delta", "1e-6"),
        ("--epsilon", "3", "--delta", "1e-6", "--rho-delta", "5e-7"),
        ("--epsilon", "3", "--delta", "1e-6", "--rho-delta", "5e-7", "--every", "year"),
    ],
)
def test_releases_of_private_keys_share_a_ledger(
    tmp_path: Path, budget: dict[str, float], account_options: tuple[str, ...]
) -> None:
    ledger = tmp_path / "l.sqlite"
    first = ("ledger", "init", str(ledger), "--table", "people", "--owner", "office")
    made = CliRunner().invoke(cli.app, [*first, "--unit", "person", *account_options])
    assert made.exit_code == 0, made.output
    (tmp_path / "people.yaml").write_text(json.dumps(SCHEMA))
    for number in (1, 2):
        query = {
            "from": "people",
            "group_by": ["state"],
            "private_keys": True,
            "columns": {"people": {"count_distinct": "person"}},
        }
        path = tmp_path / "release.yaml"
        path.write_text(
            json.dumps(
                {
                    "title": "States",
                    "tables": ["people.yaml"],
                    "budget": budget,
                    "queries": {"q": query},
                    "ledger": ledger.name,
                    "output": f"out{number}",
                }
            )
        )
        folder = dprelease.read_release(path).run(frames={"people": FRAME})
        report = dprelease.verify(folder, ledger=ledger)
        assert report.ok, report.findings
    (balance,) = dprelease.read_ledger(ledger).balances
    assert 0 < balance.spent <= balance.amount
    assert balance.releases == 2
    for command in ("show", "check", "history"):
        shown = CliRunner().invoke(cli.app, ["ledger", command, str(ledger), "--json"])
        assert shown.exit_code == 0, shown.output
    entries = json.loads(
        CliRunner().invoke(cli.app, ["ledger", "history", str(ledger), "--json"]).stdout
    )
    assert entries[0]["account"]["rho_delta"]
