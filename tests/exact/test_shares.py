"""Shares of totals in release files: exact values, coverage, verification and refusals."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import QueryError
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.numerics.lattice import sample
from dprelease.query.forms.share_of_total import MOST_CELLS
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.published_columns import exact_array, published_arrays
from dprelease.verification.published.published_cells import may_be_published
from tests.exact.build import ask, declare, exact
from tests.replay import Keyed

COLUMNS: dict[str, Any] = {
    "county": {"type": "category", "values": ["A", "B", "C"], "label": "County"},
    "sex": {"type": "category", "values": ["F", "M"]},
    "flag": {"type": "boolean"},
    "pay": {"type": "integer", "lower": 0, "upper": 50},
    "debt": {"type": "integer", "lower": -5, "upper": 50},
}
FRAME = pd.DataFrame(
    {
        "county": ["A"] * 700 + ["B"] * 290 + ["C"] * 10,
        "sex": ["F", "M", "M", "F", "M"] * 200,
        "flag": [i % 3 == 0 for i in range(1000)],
        "pay": [i * 7 % 51 for i in range(1000)],
        "debt": 0,
    }
)
SHARES: dict[str, dict[str, Any]] = {
    "of_all": {"share": "*"},
    "in_county": {"share": {"of": "*", "within": ["county"]}},
    "in_both": {"share": {"of": "*", "within": ["sex", "county"]}},
    "of_pay": {"share": {"of": "pay", "within": ["sex"], "percent": False}},
    "of_true": {"share": {"of": "flag", "within": ["flag"]}},
}
WINDOWS = {
    "of_all": "100 * n / SUM(n) OVER ()",
    "in_county": "100 * n / SUM(n) OVER (PARTITION BY county)",
    "in_both": "100 * n / SUM(n) OVER (PARTITION BY sex, county)",
    "of_pay": "pay / SUM(pay) OVER (PARTITION BY sex)",
    "of_true": "100 * t / NULLIF(SUM(t) OVER (PARTITION BY flag), 0)",
}


def test_exact_shares_equal_those_of_sql() -> None:
    query = ask(declare(COLUMNS), SHARES, ["county", "sex", "flag"])
    vectors = exact(query, FRAME)
    rows = FRAME
    cells = "(SELECT county, sex, flag, COUNT(*) n, SUM(pay) pay, SUM(flag::INT) t FROM rows GROUP BY ALL)"
    sql = ", ".join(f"{text} AS {name}" for name, text in WINDOWS.items())
    link = duckdb.connect()
    link.register("rows", rows)
    wanted = link.sql(f"SELECT {sql} FROM {cells} ORDER BY county, sex, flag").df()
    assert len(wanted) == query.keys.size
    for column in query.columns:
        found = exact_array(query, column, vectors).to_numpy(zero_copy_only=False)
        np.testing.assert_allclose(found, wanted[column.name], rtol=1e-12, equal_nan=True)


def test_shares_reuse_published_counts() -> None:
    columns = {"n": {"count": "*"}, "pay": {"sum": "pay"}, **SHARES}
    query = ask(declare(COLUMNS), columns, ["county", "sex", "flag"])
    assert [one.name for one in query.measurements] == ["n", "pay", "of_true"]
    assert [one.unit for one in query.columns] == ["rows", "", "%", "%", "%", "", "%"]


@pytest.mark.parametrize("size", [40, 4000])
@pytest.mark.parametrize("confidence", ["0.95", "0.99"])
def test_share_intervals_cover_the_truth(size: int, confidence: str) -> None:
    """By simulation, in small and in large groups, at the declared confidence."""
    runs = 4000
    spec = {"share": {"of": "*", "within": ["sex"]}, "margin": confidence}
    query = ask(declare(COLUMNS), {"p": spec}, ["county", "sex"])
    (column,) = query.columns
    (part,) = query.measurements
    noise = DiscreteLaplace(Fraction(2))
    truth = np.array([[6, 5], [3, 0], [1, 5]]) * (size // 10)
    wanted = (100 * truth / truth.sum(axis=0)).ravel()
    bits, held = Keyed(f"shares {size} {confidence}"), np.zeros(truth.size)
    for _ in range(runs // 4):
        noised = truth.ravel() + sample(noise.noise_distribution, truth.size, bits)
        found = published_arrays(query, column, {part.name: noised}, {part.name: noise})
        low, high = (np.array(found[f"p_{end}"].to_pylist()) for end in ("lower", "upper"))
        held += (low <= wanted + 1e-9) & (wanted - 1e-9 <= high)
    level = float(confidence)
    slack = 6.2 * np.sqrt(level * (1 - level) / (runs // 4))
    assert (held / (runs // 4)).min() > level - slack


def publish_shares(folder: Path) -> Path:
    table = {"table": "t", "columns": COLUMNS}
    (folder / "t.yaml").write_text(json.dumps(table))
    columns = {"n": {"count": "*"}, **SHARES}
    query = {"from": "t", "group_by": ["county", "sex", "flag"], "columns": columns}
    release = {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 3}, "output": "out"}
    (folder / "r.yaml").write_text(json.dumps({**release, "queries": {"q": query}}))
    return dprelease.read_release(folder / "r.yaml").run(frames={"t": FRAME})


def test_labels_name_the_total_of_a_share(tmp_path: Path) -> None:
    out = publish_shares(tmp_path)
    assert dprelease.verify(out).ok
    schema = pq.read_table(out / "q.parquet").schema
    labels = {name: str(schema.field(name).metadata) for name in schema.names}
    assert "share of rows in the total of County, in percent" in labels["in_county"]
    assert "share of pay in the total of sex, as a ratio" in labels["of_pay"]
    assert "share of rows in the total of all, in percent" in labels["of_all"]


def test_verify_refuses_shares_that_contradict_counts(tmp_path: Path) -> None:
    """Its own interval and quality are possible, but the published counts give another share."""
    query = ask(declare(COLUMNS), {"n": {"count": "*"}, "p": SHARES["of_all"]}, ["county", "sex"])
    noise, bits = DiscreteLaplace(Fraction(2)), Keyed("tampered")
    laws = {"n": noise}
    counts = exact(query, FRAME)["n"] + sample(noise.noise_distribution, 6, bits)
    arrays: dict[str, Any] = {
        "county": pa.array([c for c in "ABC" for _ in "FM"]), "sex": pa.array(["F", "M"] * 3),
    }  # fmt: skip
    for column in query.columns:
        arrays |= published_arrays(query, column, {"n": counts}, laws)
    right = pa.table(arrays)
    pq.write_table(right, tmp_path / "right.parquet")
    assert may_be_published(tmp_path / "right.parquet", query, laws)
    for name in ("p", "p_lower", "p_upper"):
        place = right.schema.get_field_index(name)
        moved = pa.array([x + 0.01 for x in right[name].to_pylist()])
        pq.write_table(right.set_column(place, name, moved), tmp_path / "wrong.parquet")
        assert not may_be_published(tmp_path / "wrong.parquet", query, laws), name


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({"of": "*", "within": ["flag"]}, {}),
        ({"of": "debt"}, {}),
        ({"of": "*"}, {"private_keys": True}),
    ],
)
def test_wrong_shares_are_refused(spec: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="DP-QUERY-020"):
        ask(declare(COLUMNS), {"p": {"share": spec}}, ["county"], **more)


def test_shares_of_too_many_cells_are_refused() -> None:
    assert MOST_CELLS <= ROW_GROUP
    columns = {**COLUMNS, "n": {"type": "integer", "lower": 0, "upper": MOST_CELLS // 6}}
    with pytest.raises(QueryError, match="DP-QUERY-020"):
        ask(declare(columns), {"p": {"share": "*"}}, ["n", "county", "sex"])


def test_shares_in_consistent_tables_are_refused(tmp_path: Path) -> None:
    """Their noise is not independent, so that the interval would be that of other noise."""
    (tmp_path / "t.yaml").write_text(json.dumps({"table": "t", "columns": COLUMNS}))
    columns = {"n": {"count": "*"}, "p": {"share": "*"}}
    query = {"from": "t", "marginals": [["county"], []], "columns": columns, "consistent": True}
    release = {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 3}, "output": "out"}
    (tmp_path / "r.yaml").write_text(json.dumps({**release, "queries": {"q": query}}))
    with pytest.raises(QueryError, match="DP-CONSIST-011"):
        dprelease.read_release(tmp_path / "r.yaml").plan()
