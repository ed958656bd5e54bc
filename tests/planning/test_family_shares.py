"""Budget shares of consistent tables: optimal for targets, same cost, and clear refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.planning.declaration_findings import load_declaration
from dprelease.planning.families.family_errors import consistent_errors, family_margins
from dprelease.planning.plan import Plan
from dprelease.planning.plan_charts import ROWS, relative_margins
from dprelease.planning.prepare import prepare
from dprelease.release import ledger_forecast
from dprelease.schema.load import Declaration

SCHEMA: dict[str, Any] = {
    "table": "people",
    "source": "people.csv",
    "columns": {
        "state": {"type": "category", "values": ["A", "B", "C"]},
        "sex": {"type": "category", "values": ["F", "M"]},
        "band": {"type": "integer", "lower": 1, "upper": 9},
        "pay": {"type": "integer", "lower": 0, "upper": 100},
    },
}


def read_cube(
    tmp_path: Path,
    consistent: object = True,
    budget: Mapping[str, object] | None = None,
    **query: Any,
) -> Declaration:
    """Return the declaration of a cube of three attributes whose tables agree."""
    asked = {
        "from": "people",
        "cube": ["state", "sex", "band"],
        "columns": {"n": {"count": "*", "mechanism": "discrete_gaussian"}},
        "consistent": consistent,
        **query,
    }
    release = {
        "title": "cube",
        "tables": ["people.yaml"],
        "budget": dict(budget or {"rho": "0.1", "delta": "1e-9"}),
        "queries": {"cube": asked},
        "output": "out",
    }
    (tmp_path / "people.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    (tmp_path / "release.yaml").write_text(yaml.safe_dump(release, sort_keys=False))
    return load_declaration(tmp_path / "release.yaml")


def errors_of(declaration: Declaration, plan: Plan, column: str = "n") -> dict[str, dict[str, Any]]:
    return {
        row["table"]: row
        for one in consistent_errors(plan)
        if one.agreed.name == column
        for row in one.to_json()
    }


def mean_variance(errors: Mapping[str, Mapping[str, Any]]) -> float:
    return sum(float(row["estimate"]) ** 2 for row in errors.values()) / len(errors)


def test_shares_are_better_than_equal_ones_at_same_cost(tmp_path: Path) -> None:
    """Equal weights are what columns with amounts of their own have."""
    declaration = read_cube(tmp_path)
    _, best = prepare(declaration)
    (words,) = best.shared
    assert re.search(
        r"'cube\.n' over its tables, each alike, is at most 0\.(1|09\d+|1[01]) % above", words
    )
    own = {"n": {"count": "*", "mechanism": "discrete_gaussian", "rho": "0.0125"}}
    equal = read_cube(tmp_path, columns=own)
    _, plain = prepare(equal)
    scales = [column.mechanism.scale for column in plain.columns]
    assert max(scales) < 1.01 * min(scales)
    assert best.rho() == pytest.approx(plain.rho(), rel=2e-3)
    gained = mean_variance(errors_of(declaration, best))
    assert gained < 0.98 * mean_variance(errors_of(equal, plain))


def test_weight_makes_its_table_more_precise(tmp_path: Path) -> None:
    plain = read_cube(tmp_path)
    before = errors_of(plain, prepare(plain)[1])
    aimed = read_cube(tmp_path, {"targets": [{"table": ["state"], "weight": 20}]})
    after = errors_of(aimed, prepare(aimed)[1])
    assert after["cube_state"]["estimate"] < 0.9 * before["cube_state"]["estimate"]
    assert after["cube_state_sex_band"]["estimate"] > before["cube_state_sex_band"]["estimate"]


def test_target_margin_is_reached(tmp_path: Path) -> None:
    plain = read_cube(tmp_path)
    before = errors_of(plain, prepare(plain)[1])["cube_state"]
    wanted = round(0.8 * before["margin"], 3)
    aimed = read_cube(tmp_path, {"targets": [{"table": ["state"], "moe": str(wanted)}]})
    queries, plan = prepare(aimed)
    after = errors_of(aimed, plan)["cube_state"]
    assert 0.95 * wanted < after["margin"] <= wanted
    assert plan.rho() <= 0.1
    assert len(queries) == len(plan.columns) == 8  # all tables are measured, hardly or not


@pytest.mark.parametrize("moe", ["1e4", "1e9", "1e90"])
def test_loose_target_margin_changes_nothing(moe: str, tmp_path: Path) -> None:
    """However wide: nothing is searched for its sake, and no float of it is too large."""
    plain = read_cube(tmp_path)
    before = errors_of(plain, prepare(plain)[1])
    aimed = read_cube(tmp_path, {"targets": [{"table": ["state"], "moe": moe}]})
    assert errors_of(aimed, prepare(aimed)[1]) == before


@pytest.mark.parametrize("own", ["rho", "moe"])
def test_weights_of_columns_with_fixed_amounts_are_refused(own: str, tmp_path: Path) -> None:
    amount = 40 if own == "moe" else "0.001"
    settled = {"n": {"count": "*", "mechanism": "discrete_gaussian", own: amount}}
    target = {"table": ["state"], "weight": 20}
    with pytest.raises(DpReleaseError, match="DP-CONSIST-013") as refused:
        prepare(read_cube(tmp_path, {"targets": [target]}, columns=settled))
    assert "queries.cube.consistent.targets[0].weight" in str(refused.value)
    shared = {"m": {"sum": "pay", "mechanism": "discrete_gaussian"}}
    prepare(read_cube(tmp_path, {"targets": [target]}, columns={**settled, **shared}))


def test_charts_and_forecasts_use_the_shares(tmp_path: Path) -> None:
    """With the declared noise, both are about the release itself."""
    aimed = read_cube(tmp_path, {"targets": [{"table": ["state"], "weight": 1000}]})
    queries, plan = prepare(aimed)
    estimates = family_margins(consistent_errors(plan))
    drawn = {name: values[-1] * round(ROWS[-1]) for name, values in relative_margins(plan).items()}
    assert drawn == pytest.approx({".".join(key): margin for key, margin in estimates.items()})
    own = {c.query.name: c.mean_absolute_error for c in plan.columns}
    assert max(own.values()) > 10 * min(own.values())
    others = dict(ledger_forecast._plans_with_other_noise(aimed, queries, plan))
    assert [c.mechanism for c in others["discrete_gaussian"].columns] == [
        c.mechanism for c in plan.columns
    ]
    assert not {"staircase", "symmetric_alpha_stable", "optimal"} & set(others)
    for other in others.values():
        assert all(c.mechanism.has_variance_bound() for c in other.columns)


def test_unreachable_target_names_a_sufficient_budget(tmp_path: Path) -> None:
    aimed = read_cube(tmp_path, {"targets": [{"table": ["state"], "moe": "0.5"}]})
    with pytest.raises(DpReleaseError, match="DP-CONSIST-020") as refused:
        prepare(aimed)
    told = str(refused.value)
    assert "queries.cube.consistent.targets[0].moe" in told
    factor = Fraction(told.partition(" targets, or ")[2].partition(" times")[0])
    budget = {"rho": str(Fraction(1, 10) * factor * Fraction(11, 10)), "delta": "1e-9"}
    more = {"rho": f"{float(Fraction(budget['rho'])):.6f}", "delta": "1e-9"}
    enough = read_cube(tmp_path, {"targets": [{"table": ["state"], "moe": "0.5"}]}, more)
    assert errors_of(enough, prepare(enough)[1])["cube_state"]["margin"] <= 0.5


@pytest.mark.parametrize(
    "budget", [{"rho": "0.1", "delta": "1e-9"}, {"epsilon": 1, "delta": "1e-9"}], ids=str
)
def test_sums_have_their_own_shares(tmp_path: Path, budget: dict[str, Any]) -> None:
    columns = {
        "n": {"count": "*", "mechanism": "discrete_gaussian"},
        "pay": {"sum": "pay", "mechanism": "discrete_gaussian"},
    }
    aim = {"targets": [{"table": ["sex"], "weight": 9}]}
    aimed = read_cube(tmp_path, aim, budget, columns=columns)
    _, plan = prepare(aimed)
    counts, sums = errors_of(aimed, plan), errors_of(aimed, plan, "pay")
    ratios = {round(sums[name]["estimate"] / counts[name]["estimate"], 1) for name in counts}
    assert len(ratios) == 1  # both are shared in the same way


def test_fixed_amounts_of_columns_are_kept(tmp_path: Path) -> None:
    columns = {"n": {"count": "*", "mechanism": "discrete_gaussian", "moe": 40}}
    _, plan = prepare(read_cube(tmp_path, columns=columns))
    assert len({column.mechanism for column in plan.columns}) == 1


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "unknown level": ({"level": "county", "weight": 2}, {}, "DP-CONSIST-013"),
    "unknown key": ({"table": ["pay"], "weight": 2}, {}, "DP-CONSIST-013"),
    "a pure budget": ({"table": [], "weight": 2}, {"epsilon": 1}, "DP-CONSIST-021"),
    "nothing": ({"table": []}, {}, "DP-DECL-003"),
    "both": ({"table": [], "weight": 2, "moe": 3}, {}, "DP-"),
    "no number": ({"table": [], "moe": 0}, {}, "DP-"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_targets_are_refused(tmp_path: Path, case: str) -> None:
    target, budget, code = REFUSED[case]
    columns = {"n": {"count": "*"}} if budget else {"n": {"count": "*", "mechanism": "gaussian"}}
    with pytest.raises(DpReleaseError, match=code) as refused:
        prepare(read_cube(tmp_path, {"targets": [target]}, budget, columns=columns))
    assert "no row was read" in str(refused.value)


def test_duplicate_targets_are_refused(tmp_path: Path) -> None:
    targets = [{"table": ["sex", "state"], "weight": 2}, {"table": ["state", "sex"], "weight": 3}]
    with pytest.raises(DpReleaseError, match="DP-CONSIST-013"):
        prepare(read_cube(tmp_path, {"targets": targets}))


def test_release_with_targets_verifies(tmp_path: Path) -> None:
    """Shares are not searched again: mechanisms are taken from the manifest."""
    read_cube(tmp_path, {"targets": [{"table": ["state"], "weight": 7}]})
    (tmp_path / "people.csv").write_text("state,sex,band,pay\nA,F,3,10\nB,M,4,50\n")
    published = dprelease.read_release(tmp_path / "release.yaml").run()
    assert dprelease.verify(published).ok
    record = json.loads((published / "manifest.json").read_text())
    assert len({str(event) for event in record["measurements"]}) > 1
