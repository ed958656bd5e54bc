"""Marginals, cubes, rollups and hierarchies: several tables of one query, under one budget."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.planning.plan import Plan
from dprelease.privacy.accounting import epsilon_at

TABLE = """\
table: people
source: people.csv
columns:
  state: {type: category, values: [a, b]}
  county: {type: category, values: [a1, a2, b1]}
  sex: {type: category, values: [f, m]}
"""
ROWS = "state,county,sex\n" + "a,a1,f\n" * 30 + "a,a2,m\n" * 20 + "b,b1,f\n" * 50


def release(folder: Path, query: str, budget: str = "{epsilon: 90}") -> dprelease.Release:
    (folder / "people.yaml").write_text(TABLE)
    (folder / "people.csv").write_text(ROWS)
    (folder / "release.yaml").write_text(
        f"title: Marginals\ntables: [people.yaml]\nbudget: {budget}\nmechanism: discrete_laplace\n"
        f"queries:\n  q:\n    from: people\n{query}\n    columns: {{n: {{count: '*'}}}}\noutput: out\n"
    )
    return dprelease.read_release(folder / "release.yaml")


def cells_per_table(plan: Plan) -> dict[str, int]:
    return {column.query.name: column.query.keys.size for column in plan.columns}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("    marginals: [[state], [state, sex]]", {"q_state": 2, "q_state_sex": 4}),
        (
            "    cube: [state, sex]",
            {"q_total": 1, "q_state": 2, "q_sex": 2, "q_state_sex": 4},
        ),
        ("    rollup: [state, sex]", {"q_total": 1, "q_state": 2, "q_state_sex": 4}),
        ("    hierarchy: [state, county]", {"q_total": 1, "q_state": 2, "q_county": 3}),
    ],
)
def test_tables_of_marginals_cubes_and_rollups(
    tmp_path: Path, query: str, expected: dict[str, int]
) -> None:
    found = release(tmp_path, query)
    plan = found.plan()
    assert cells_per_table(plan) == expected
    prices = {
        epsilon_at([column.accounting_input], plan.guarantee.delta) for column in plan.columns
    }
    assert len(prices) == 1  # equal shares of one budget
    assert 89.9 < plan.guarantee.epsilon <= 90
    published = found.run()
    assert {
        path.stem: pq.read_table(path).num_rows for path in published.glob("*.parquet")
    } == expected
    report = dprelease.verify(published)
    assert report.ok, report.findings
    # At this budget the noise is a few steps at most: every table adds up to about all rows.
    for path in published.glob("*.parquet"):
        assert abs(sum(pq.read_table(path)["n"].to_pylist()) - 100) <= 8


def test_share_of_budget_covers_all_marginals(tmp_path: Path) -> None:
    query = "    cube: [state, sex]\n    share: {epsilon: 1}"
    plan = release(tmp_path, query, "{epsilon: 2}").plan()
    assert 0.99 < plan.guarantee.epsilon <= 1


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("    cube: [state]\n    group_by: [sex]", "DP-RELEASE-008"),
        ("    rollup: [state, planet]", "DP-QUERY-001"),
        ("    marginals: [[n]]", "DP-RELEASE-007"),
        ("    marginals: [[state], [state]]", "DP-DECL-003"),
        ("    cube: [a, b, c, d, e, f, g, h, i]", "DP-DECL-003"),
    ],
)
def test_impossible_marginals_are_refused(tmp_path: Path, query: str, code: str) -> None:
    with pytest.raises(DpReleaseError, match=code):
        release(tmp_path, query).plan()
