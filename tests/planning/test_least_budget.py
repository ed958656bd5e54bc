"""The least budget that reaches all targets, and targets of one column among several."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.planning.families.family_shares import margins_of
from dprelease.planning.families.least_budget import _consistent_columns
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.schema.load import Declaration
from tests.release.area_family import publish_family, read_family

TWO = "{n: {count: '*'}, pay: {sum: pay}}"
LEAST: dict[str, dict[str, Any]] = {
    "rho": {
        "budget": "rho: 5, delta: 1e-6, spend: least",
        "consistent": "{targets: [{level: state, table: [sex], moe: 8}]}",
    },
    "epsilon": {
        "budget": "epsilon: 20, delta: 1e-6, spend: least",
        "consistent": "{targets: [{level: town, moe: 12}, {table: [sex], moe: 6}]}",
    },
    "one table": {
        "budget": "rho: 5, delta: 1e-6, spend: least", "asked": "group_by: [sex]",
        "consistent": "{targets: [{table: [sex], moe: 8}]}",
    },
    "two columns": {
        "budget": "rho: 20, delta: 1e-6, spend: least", "columns": TWO,
        "consistent": "{targets: [{level: state, moe: 9, column: n}, "
        "{level: state, moe: 500, column: pay}]}",
    },
    "a column without a target": {
        "budget": "rho: 20, delta: 1e-6, spend: least", "columns": TWO,
        "consistent": "{targets: [{level: state, moe: 9, column: n}]}",
    },
    "invariants": {
        "budget": "rho: 5, delta: 1e-6, neighbours: replace, spend: least",
        "consistent": "{targets: [{level: town, moe: 8}], invariants: [{level: state}], "
        "acknowledge: invariants are published exactly}",
    },
    "several laws": {
        "budget": "epsilon: 20, delta: 1e-6, spend: least", "mechanism": "laplace",
        "consistent": "{targets: [{level: town, moe: 30}]}",
    },
}  # fmt: skip


def parts(declaration: Declaration, plan: Plan) -> list[float]:
    """Return each margin of a target divided by the declared one."""
    return [
        margin / float(moe)
        for agreed, spec in _consistent_columns(plan)
        for _, margin, moe in margins_of(agreed, spec)
    ]


def spent_budget(plan: Plan) -> float:
    return plan.guarantee.rho if plan.guarantee.rho is not None else plan.guarantee.epsilon


@pytest.mark.share(0.3)
@pytest.mark.parametrize("what", LEAST)
def test_least_budget_just_reaches_the_targets(what: str, tmp_path: Path) -> None:
    declaration = read_family(tmp_path, **LEAST[what])
    _, plan = prepare(declaration)
    reached = parts(declaration, plan)
    assert max(reached) <= 1
    assert max(reached) >= 0.93, reached  # margins of little noise are in whole steps
    _, whole = prepare(read_family(tmp_path, **_all(what)))
    assert spent_budget(plan) < spent_budget(whole)
    (words,) = plan.shared
    assert "is the least that reaches all targets" in words
    assert dprelease.Release(declaration).plan().columns


def _all(what: str) -> dict[str, Any]:
    return {**LEAST[what], "budget": LEAST[what]["budget"].replace(", spend: least", "")}


def test_smaller_budget_misses_the_targets(tmp_path: Path) -> None:
    """Whatever the shares: with 3 % less the search of the best ones says that none do."""
    declaration = read_family(tmp_path, **LEAST["rho"])
    _, plan = prepare(declaration)
    less = Fraction(str(round(spent_budget(plan) * 0.97, 6)))
    given = {**LEAST["rho"], "budget": f"rho: {float(less)}, delta: 1e-6"}
    with pytest.raises(DpReleaseError, match="DP-CONSIST-020"):
        prepare(read_family(tmp_path, **given))
    more = {**LEAST["rho"], "budget": f"rho: {spent_budget(plan) * 1.03:.6f}, delta: 1e-6"}
    prepare(read_family(tmp_path, **more))


def test_least_budget_for_two_columns(tmp_path: Path) -> None:
    """Neither has more than it needs: what one does not take the other gets."""
    declaration = read_family(tmp_path, **LEAST["two columns"])
    _, plan = prepare(declaration)
    assert min(parts(declaration, plan)) > 0.95


def test_release_is_charged_the_least_budget(tmp_path: Path) -> None:
    folder = publish_family(tmp_path, **LEAST["rho"])
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    rho = float(json.loads((folder / "manifest.json").read_text())["guarantee"]["rho"])
    assert 0 < rho < 1


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no targets": ({"budget": "rho: 1, delta: 1e-6, spend: least"}, "DP-CONSIST-022", "margin"),
    "weights alone": (
        {
            "budget": "rho: 1, delta: 1e-6, spend: least",
            "consistent": "{targets: [{table: [], weight: 2}]}",
        },
        "DP-CONSIST-022", "margin",
    ),
    "no cap": (
        {"budget": "delta: 1e-6, spend: least", "columns": "{n: {count: '*', epsilon: 1}}",
         "consistent": "{targets: [{table: [], moe: 200}]}"},
        "DP-CONSIST-022", "no `epsilon` or `r",
    ),
    "an amount of its own": (
        {
            "budget": "rho: 20, delta: 1e-6, spend: least",
            "columns": "{n: {count: '*'}, pay: {sum: pay, rho: 1}}",
            "consistent": "{targets: [{table: [], moe: 20, column: n}]}",
        },
        "DP-CONSIST-022", "a column has its o",
    ),
    "a pure budget": (
        {
            "budget": "epsilon: 5, spend: least", "mechanism": "discrete_laplace",
            "consistent": "{targets: [{table: [], moe: 20}]}",
        },
        "DP-CONSIST-021", "pure",
    ),
    "beyond the cap": (
        {
            "budget": "rho: 0.01, delta: 1e-6, spend: least",
            "consistent": "{targets: [{table: [], moe: 2}]}",
        },
        "DP-CONSIST-023", "at best",
    ),
    "no family": ({"budget": "rho: 1, delta: 1e-6, spend: least", "consistent": "false",
                   "asked": "group_by: [sex]"}, "DP-CONSIST-022", "margin"),
    "no such column": (
        {"consistent": "{targets: [{table: [], moe: 2, column: pay}]}"},
        "DP-CONSIST-013", "not one of the columns",
    ),
    "the same table for all and for one": (
        {"consistent": "{targets: [{table: [], moe: 90}, {table: [], weight: 2, column: n}]}"},
        "DP-CONSIST-013", "already",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_least_budget_without_reachable_targets_is_refused(what: str, tmp_path: Path) -> None:
    given, code, words = REFUSED[what]
    with pytest.raises(DpReleaseError) as caught:
        prepare(read_family(tmp_path, **given))
    problem = getattr(caught.value, "findings", [caught.value])[0]
    assert problem.code == code, str(problem)
    assert words in str(problem)


def test_refusal_names_the_needed_budget(tmp_path: Path) -> None:
    given, *_ = REFUSED["beyond the cap"]
    with pytest.raises(DpReleaseError) as caught:
        prepare(read_family(tmp_path, **given))
    needed = float(str(caught.value).split("about rho ")[1].split(",")[0])
    more = {**given, "budget": f"rho: {needed * 1.1}, delta: 1e-6, spend: least"}
    _, plan = prepare(read_family(tmp_path, **more))
    assert needed * 0.8 < spent_budget(plan) < needed * 1.1


def test_targets_of_one_column(tmp_path: Path) -> None:
    """A target without a column binds all alike; with one, the others are left as they are."""
    whole = "[{level: state, moe: 9}]"
    with pytest.raises(DpReleaseError, match="DP-CONSIST-020"):
        prepare(read_family(tmp_path, columns=TWO, consistent=f"{{targets: {whole}}}"))
    own = "[{level: state, moe: 30, column: n}, {level: state, weight: 3, column: pay}]"
    declaration = read_family(tmp_path, columns=TWO, consistent=f"{{targets: {own}}}")
    _, plan = prepare(declaration)
    assert len(parts(declaration, plan)) == 1
    assert max(parts(declaration, plan)) <= 1


@pytest.mark.parametrize("moe", ["1e-90", "1e-99", "0.000000000000001"])
def test_tiny_target_margins_are_refused(moe: str, tmp_path: Path) -> None:
    """They are refused as all that can't be reached, without a warning on the way."""
    for spend in ("", ", spend: least"):
        given = {
            "budget": f"rho: 1, delta: 1e-6{spend}",
            "consistent": f"{{targets: [{{table: [], moe: {moe}}}]}}",
        }
        declaration = read_family(tmp_path, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DpReleaseError) as caught:
                prepare(declaration)
        assert caught.value.code in ("DP-CONSIST-020", "DP-CONSIST-023")
