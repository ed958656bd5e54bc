"""Ratios of quantiles: exact values, coverage by group size, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError, QueryError
from dprelease.postprocess.quantile_order import quantile_ratio_estimates
from tests.exact.build import ask, declare

COLUMNS: dict[str, Any] = {
    "g": {"type": "integer", "lower": 0, "upper": 199},
    "pay": {"type": "integer", "lower": 0, "upper": 1000},
    "debt": {"type": "integer", "lower": -5, "upper": 50},
    "born": {"type": "date", "lower": "1970-01-01", "upper": "1980-01-01"},
}
P80_P20 = {"of": "pay", "over": "0.8", "under": "0.2"}


def spread(rows: int) -> np.ndarray:
    """Return incomes of one group, whose quantiles no two rows share."""
    return (100 + 800 * (np.arange(rows) + 0.5) / rows).astype(int)


def publish_ratios(
    folder: Path, groups: int, rows: int, epsilon: float, **more: Any
) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"g": np.repeat(np.arange(groups), rows), "pay": np.tile(spread(rows), groups)}
    )
    columns = {name: COLUMNS[name] for name in ("g", "pay")}
    (folder / "t.yaml").write_text(json.dumps({"table": "t", "columns": columns}))
    query = {"from": "t", "group_by": ["g"], "columns": {"r": {"quantile_ratio": P80_P20, **more}}}
    release = {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": epsilon}, "output": "out"}
    (folder / "r.yaml").write_text(json.dumps({**release, "queries": {"q": query}}))
    out = dprelease.read_release(folder / "r.yaml").run(frames={"t": frame})
    assert dprelease.verify(out).ok
    found: pd.DataFrame = pq.read_table(out / "q.parquet").to_pandas()
    return found[found["g"] < groups]


@pytest.mark.parametrize(("rows", "groups"), [(60, 200), (1500, 60)])
def test_quantile_ratio_intervals_cover_the_truth(tmp_path: Path, rows: int, groups: int) -> None:
    """In small groups, of which many are empty, and in large ones."""
    found = publish_ratios(tmp_path, groups, rows, epsilon=3)
    values = np.sort(spread(rows))
    truth = values[int(np.ceil(0.8 * rows)) - 1] / values[int(np.ceil(0.2 * rows)) - 1]
    upper = found["r_upper"].fillna(np.inf)
    held = (found["r_lower"] <= truth + 1e-9) & (truth - 1e-9 <= upper)
    assert held.mean() > 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / groups)
    assert (found["r_lower"] >= 1).all()
    empty = found["r"].isna()
    assert (found["r_quality"][empty] == "unsure_divisor").all()
    if rows > 1000:
        assert not empty.any()
        assert (found["r"] - truth).abs().median() < 0.2 * truth


def test_quantile_ratio_confidence_is_split(tmp_path: Path) -> None:
    query = ask(declare(COLUMNS), {"r": {"quantile_ratio": P80_P20, "margin": "99 %"}})
    confidences = {float(one.aggregate.miss) for one in query.measurements}  # type: ignore[attr-defined]
    assert confidences == {0.025, 0.0025}
    assert publish_ratios(tmp_path, 3, 2000, epsilon=9, margin="99 %")["r"].notna().all()


def test_published_quantiles_are_shared() -> None:
    columns = {
        "p80": {"quantile": {"of": "pay", "at": "0.8"}, "interval": "97.5 %"},
        "p20": {"quantile": {"of": "pay", "at": "0.2"}, "interval": "97.5 %"},
        "r": {"quantile_ratio": P80_P20},
    }
    query = ask(declare(COLUMNS), columns)
    assert len(query.measurements) == 6
    assert [len(one.parts) for one in query.columns] == [3, 3, 6]


def test_quotients_of_interval_ends() -> None:
    over = [np.array([80.0, 8.0, 3.0]), np.array([70.0, 9.0, 2.0]), np.array([90.0, 7.0, 4.0])]
    under = [np.array([20.0, 0.0, 5.0]), np.array([10.0, 0.0, 4.0]), np.array([30.0, 2.0, 6.0])]
    found = quantile_ratio_estimates(over, under, np.inf)
    np.testing.assert_allclose(found.values, [4.0, np.nan, 1.0])
    np.testing.assert_allclose(found.lower, [70 / 30, 7 / 2, 1.0])
    np.testing.assert_allclose(found.upper, [9.0, np.inf, 1.0])
    assert found.unsure.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("spec", "more"), [({"of": "debt"}, {}), ({"of": "born"}, {}), ({}, {"margin": "90 %"})]
)
def test_wrong_quantile_ratios_are_refused(spec: dict[str, Any], more: dict[str, Any]) -> None:
    code = "DP-QUERY-004" if spec.get("of") == "born" else "DP-QUERY-021"
    with pytest.raises(QueryError, match=code):
        ask(declare(COLUMNS), {"r": {"quantile_ratio": {**P80_P20, **spec}, **more}})


@pytest.mark.parametrize(("over", "under"), [("0.2", "0.8"), ("0.5", "0.5"), ("1", "0.5")])
def test_swapped_fractions_are_refused(over: str, under: str) -> None:
    spec = {"of": "pay", "over": over, "under": under}
    with pytest.raises(DpReleaseError, match=r"0\.8, under: 0\.2"):
        ask(declare(COLUMNS), {"r": {"quantile_ratio": spec}})
