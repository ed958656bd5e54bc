"""Weighted counts, sums and means, and effective sizes: values, intervals, notes, refusals."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.numerics.lattice import sample
from dprelease.postprocess.derived_values import estimates_of
from tests.exact.build import ask, declare
from tests.postprocess.test_margins import LAWS, laws_of
from tests.replay import Keyed

COLUMNS: dict[str, Any] = {
    "k": {"type": "category", "values": ["a", "b"]},
    "x": {"type": "number", "lower": -20, "upper": 100, "step": 0.5, "unit": "EUR"},
    "w": {"type": "number", "lower": 0, "upper": 40, "step": 0.1},
    "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    "signed": {"type": "integer", "lower": -1, "upper": 5},
}
ASKED: dict[str, Any] = {
    "n": {"weighted_count": "w"},
    "s": {"weighted_sum": {"of": "x", "weight": "w"}},
    "m": {"weighted_mean": {"of": "x", "weight": "w"}},
    "e": {"effective_size": "w"},
}
RELEASES = 20_000


def frame(rows: int) -> pd.DataFrame:
    i = np.arange(rows)
    x = np.floor((i * 0.6180339887 % 1) ** 2 * 180) / 2 - 10
    w = np.round(0.5 + 30 * (i * 0.7548776662 % 1) ** 3, 1)
    x[i % 7 == 3], w[i % 11 == 5] = np.nan, np.nan
    return pd.DataFrame({"k": np.where(i % 3, "a", "b"), "x": x, "w": w})


def truth(held: pd.DataFrame) -> dict[str, float]:
    both = held.dropna(subset=["x", "w"])
    product = float((both.x * both.w).sum())
    return {
        "n": float(held.w.sum()), "s": product, "m": product / float(both.w.sum()),
        "e": float(held.w.sum() ** 2 / (held.w**2).sum()),
    }  # fmt: skip


@pytest.mark.parametrize("rows", [40, 400, 20_000])
@pytest.mark.parametrize("name", ["laplace", "discrete_gaussian", "symmetric_alpha_stable"])
def test_weighted_intervals_cover_the_truth(name: str, rows: int) -> None:
    """For each cell size: a coverage of 95 % falls below 94.2 % with probability 1e-7."""
    held = frame(rows)
    query = ask(declare(COLUMNS), ASKED)
    laws = laws_of(query, name)
    with Engine.open(query.declared, held) as engine:
        found = engine.run(query)
    bits = Keyed(f"weights {name} {rows}")
    vectors = {
        part: sample(law.noise_distribution, RELEASES, bits) + found.vector(part)[0]
        for part, law in laws.items()
    }
    wanted = truth(held)
    for column in query.columns[2:]:
        shown = estimates_of(column, vectors, laws, 0.95)
        true = wanted[column.name]
        covered = (shown.lower <= true + 1e-9) & (true <= shown.upper + 1e-9)
        assert covered.mean() >= 0.942, column.name
        known = ~shown.unsure
        assert np.all((shown.lower <= shown.values) & (shown.values <= shown.upper) | ~known)
        assert np.isfinite(shown.lower).all() & np.isfinite(shown.upper).all()
        if rows == 20_000 and column.name == "m":  # not much wider than they need to be
            assert covered.mean() <= 0.96
            smaller = {
                part: type(law).design(law.scale * 0.9, query.measurements[0].sensitivity, **more)
                for part, law in laws.items()
                for more in [{k: v for k, v in LAWS[name].items() if k != "scale"}]
            }
            narrow = estimates_of(column, vectors, smaller, 0.95)
            assert ((narrow.lower <= true) & (true <= narrow.upper)).mean() < 0.942


def test_weighted_statistics_equal_duckdb(tmp_path: Any) -> None:
    held = frame(3000)
    session = dprelease.Session({"table": "people", "columns": COLUMNS}, epsilon=10**9)
    held.dp.use(session)
    known = held.dropna(subset=["w"])
    wanted = duckdb.sql(
        "SELECT k, SUM(x * w) / SUM(w) FILTER (x IS NOT NULL) AS m, SUM(x * w) AS s, SUM(w) AS n, "
        "SUM(w) * SUM(w) / SUM(w * w) AS e FROM known GROUP BY k ORDER BY k"
    ).df()
    found = held.dp.tables(ASKED, marginals=[["k"]], epsilon=100)["k"]
    for name in ASKED:
        assert found[name].astype(float).to_numpy() == pytest.approx(wanted[name], rel=1e-2), name
    again = held.dp.sql(
        "SELECT k, WEIGHTED_AVG(x, w) AS m, wavg(x, w) FILTER (x > 50) AS f, "
        "WEIGHTED_AVG(CASE WHEN x > 50 THEN x END, w) AS g FROM people GROUP BY k",
        epsilon=100,
    )
    assert again["m"].to_numpy() == pytest.approx(wanted["m"], rel=1e-2)
    assert again["f"].to_numpy() == pytest.approx(again["g"], rel=1e-2)
    assert len(known) < len(held)
    for question, arguments, name in (
        (held.dp.mean, {"column": "x", "weight": "w"}, "m"),
        (held.dp.sum, {"column": "x", "weight": "w"}, "s"),
        (held.dp.weighted_count, {"column": "w"}, "n"),
        (held.dp.effective_size, {"column": "w"}, "e"),
    ):
        one = question(**arguments, by="k", epsilon=100)["value"].astype(float)
        assert one.to_numpy() == pytest.approx(wanted[name], rel=1e-2)
    groups = held.dp.groupby("k")
    for one in (
        groups.mean("x", weight="w", epsilon=100),
        groups[["x"]].mean(weight="w", epsilon=100),
    ):
        assert one["x"].to_numpy() == pytest.approx(wanted["m"], rel=1e-2)


def test_labels_state_what_weighted_margins_omit() -> None:
    query = ask(declare(COLUMNS), {**ASKED, "plain": {"sum": "w"}})
    said = {
        column.name: "no variance of a sampling design" in column.formula
        for column in query.columns
    }
    assert said == {"n": True, "s": True, "m": True, "e": True, "plain": False}
    assert [column.unit for column in query.columns[:4]] == ["", "EUR", "EUR", "rows"]
    counts = [column for column in query.columns if column.name in ("n", "plain")]
    assert counts[0].parts == counts[1].parts  # one measurement


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"weighted_mean": {"of": "x", "weight": "signed"}}, "DP-QUERY-023"),
        ({"weighted_count": "signed"}, "DP-QUERY-023"),
        ({"effective_size": "signed"}, "DP-QUERY-023"),
        ({"weighted_sum": {"of": "day", "weight": "w"}}, "DP-QUERY-004"),
        ({"weighted_sum": {"of": "x", "weight": "day"}}, "DP-QUERY-004"),
        ({"weighted_sum": {"of": "x", "weight": "k"}}, "DP-QUERY-004"),
        ({"weighted_mean": {"of": "x", "weight": "nothing"}}, "DP-QUERY-001"),
        ({"weighted_mean": {"of": "nothing", "weight": "w"}}, "DP-QUERY-001"),
        ({"weighted_mean": "x"}, "DP-DECL"),
        ({"weighted_mean": {"of": "x"}}, "DP-DECL"),
        ({"mean": {"of": "x", "weight": "w"}}, "DP-DECL"),
    ],
    ids=str,
)
def test_wrong_weights_are_refused(spec: dict[str, Any], code: str) -> None:
    with pytest.raises(DpReleaseError) as refused:
        ask(declare(COLUMNS), {"c": spec})
    assert code in str(refused.value)


def test_products_with_too_fine_steps_are_refused() -> None:
    fine = {"type": "number", "lower": 0, "upper": "1e-19", "step": "1e-21"}
    with pytest.raises(DpReleaseError, match="DP-QUERY-023"):
        ask(declare({"a": fine, "b": fine}), {"c": {"weighted_sum": {"of": "a", "weight": "b"}}})
