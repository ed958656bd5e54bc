"""`dprelease mechanisms` and `dprelease mechanisms compare`, as people and programs call them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.optimal import least_error
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.planning.auto.single_mechanism import compare, efficiency, parse_budget
from dprelease.planning.calibration import make_accounting_input, typical_error
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.unit import Move, Sensitivity

RUN = CliRunner()


def call(*words: str) -> tuple[int, str, str]:
    done = RUN.invoke(cli.app, ["mechanisms", *words])
    return done.exit_code, done.stdout, done.stderr


def test_list_of_all_mechanisms() -> None:
    listed = json.loads(call("--json")[1])
    names = {(row["name"], row["kind"]) for row in listed}
    assert names == {(name, "noise") for name in registry.names()} | {
        (name, "selection") for name in registry.selection_names()
    }
    words = call()[1]
    for row in listed:
        assert f"{row['name']} (" in words
        assert row["use"] in words
        for shape in row["shapes"]:
            assert shape["meaning"]
            assert "error message" not in shape["admissible"]
            assert f"{shape['name']}: {shape['admissible']}" in words


def test_compared_mechanisms_spend_the_budget_exactly() -> None:
    budget = parse_budget("1", "1e-9")
    rows = compare(budget, 2, 8)
    assert {row.mechanism.name for row in rows} == set(registry.names())
    assert [typical_error(row.mechanism) for row in rows] == sorted(
        typical_error(row.mechanism) for row in rows
    )
    sensitivity = Sensitivity(1, (Move(2, 8),))
    for row in rows:
        spent = epsilon_at([make_accounting_input(row.mechanism, sensitivity)], budget.delta)
        assert spent <= 1.0
        if row.mechanism.name != "optimal":  # a step of its whole masses costs more than 0.1 %
            assert spent > 0.998
        assert 0.0 < (row.efficiency or 0.0) <= 1 + 1e-6


def test_best_shapes_are_no_worse_than_the_grid() -> None:
    """Refined ratios and exponents: many answers lie between Laplace and Gaussian noise."""
    rows = {row.mechanism.name: row for row in compare(parse_budget("1", "1e-6"), 1, 16)}
    error = {name: row.mechanism.mean_absolute_error for name, row in rows.items()}
    between = error["discrete_offset_symmetric_gaussian"]
    assert between < min(error["discrete_laplace"], error["discrete_gaussian"])
    assert 0.5 < float(rows["offset_symmetric_gaussian"].shape["ratio"]) < 2.0
    pure = {row.mechanism.name: row for row in compare(parse_budget("0.1", "0"), 100, 1)}
    assert set(pure) == set(registry.pure_names())
    assert 1.65 < float(pure["symmetric_alpha_stable"].shape["alpha"]) < 1.75


def test_efficiency_is_optimal_error_over_error() -> None:
    assert efficiency(Laplace(10.0), 10, 0.0) == pytest.approx(
        least_error(1.0, 0.0, 10) / Laplace(10.0).mean_absolute_error, rel=1e-9
    )
    delta = 1e-6
    law = Laplace(10.0)
    epsilon = 1.0 + 2 * math.log1p(-delta)  # where 1 - exp((epsilon - 1) / 2) is delta
    expected = least_error(epsilon, delta, 10) / law.mean_absolute_error
    assert efficiency(law, 10, delta) == pytest.approx(expected, rel=1e-6)
    assert efficiency(SymmetricAlphaStable(10.0, 1.0), 10, 0.0) == 0.0
    assert efficiency(Laplace(0.1), 10, 0.0) is None  # epsilon 100
    assert efficiency(registry.get("gaussian")(10.0), 10, 0.0) is None  # no pure guarantee


def test_text_and_json_of_compare_agree() -> None:
    found = json.loads(call("compare", "--epsilon", "1", "--json")[1])
    assert found[0]["mechanism"] in {"discrete_laplace", "staircase"}
    assert found[0]["efficiency"] == pytest.approx(1.0, rel=1e-9)
    words = call("compare", "--epsilon", "1")[1].splitlines()
    assert [line.split()[0] for line in words[1:]] == [row["mechanism"] for row in found]
    heavy = next(row for row in found if row["mechanism"] == "symmetric_alpha_stable")
    assert heavy["root_mean_square_error"] is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_comparison_charts(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"errors.{suffix}"
    assert call("compare", "--epsilon", "2", "--plot", str(target))[0] == 0
    assert target.stat().st_size > 1000
    if suffix == "svg":
        assert target.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_impossible_charts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, words = call("compare", "--epsilon", "1", "--plot", str(tmp_path / "errors.gif"))
    assert code == 2
    assert "DP-OUTPUT-005" in words
    code, _, words = call("compare", "--epsilon", "1", "--plot", str(tmp_path / "no" / "e.png"))
    assert code == 2
    assert "DP-OUTPUT-002" in words
    monkeypatch.setattr("dprelease.planning.charts.find_spec", lambda name: None)
    code, _, words = call("compare", "--epsilon", "1", "--plot", str(tmp_path / "errors.png"))
    assert code == 2
    assert "DP-OUTPUT-004" in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--epsilon", "nan"), "DP-BUDGET-001"),
        (("--epsilon", "0"), "DP-BUDGET-001"),
        (("--epsilon", "101"), "DP-BUDGET-001"),
        (("--epsilon", "1", "--delta", "one"), "DP-BUDGET-002"),
        (("--epsilon", "1", "--delta", "0.5"), "DP-BUDGET-002"),
    ],
)
def test_budgets_out_of_range_are_refused(words: tuple[str, ...], code: str) -> None:
    status, out, found = call("compare", *words)
    assert status == 3
    assert code in found
    assert out == ""


@pytest.mark.parametrize("option", ["--sensitivity", "--answers"])
def test_zero_options_of_compare_are_refused(option: str) -> None:
    assert call("compare", "--epsilon", "1", option, "0")[0] == 2


def test_calibrate_from_python() -> None:
    """Open shapes are searched, declared ones kept; budgets are spent to within 0.1 %."""
    law = dprelease.calibrate("offset_symmetric_gaussian", 1, "1e-6", answers=16)
    other = dprelease.calibrate("offset_symmetric_gaussian", 1, "1e-6", answers=16, ratio=4)
    assert 0.5 < law.ratio < 2.0
    assert other.ratio == 4.0
    assert law.mean_absolute_error < other.mean_absolute_error
    found = dprelease.calibrate("asymmetric_laplace", "0.5", sensitivity=3, k=1.5)
    assert max(loss.pure_epsilon for loss in found.losses(3)) == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(BudgetError, match="DP-BUDGET-003"):
        dprelease.calibrate("gaussian", 1)
    with pytest.raises(BudgetError, match="DP-MECH-004"):
        dprelease.calibrate("gausian", 1)
    with pytest.raises(BudgetError, match="DP-MECH-003"):
        dprelease.calibrate("asymmetric_laplace", 1)
    with pytest.raises(BudgetError, match="DP-MECH-002"):
        dprelease.calibrate("laplace", 1, ratio=2)
    short = dprelease.calibrate("truncated_laplace", 1, "1e-6", short_side="upper", debias="false")
    assert short.upper < -short.lower
