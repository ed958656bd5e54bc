"""Quantiles of timestamps: the same seconds, whatever type stores them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError, QueryError
from dprelease.query.resolve import Query
from tests.exact.build import ask, declare, exact

FIRST, LAST = datetime(1969, 12, 31, 23, 59, 50), datetime(1970, 1, 1, 0, 0, 15)
TIMES = [
    *(FIRST + timedelta(milliseconds=700 * i) for i in range(-3, 40)),
    None, datetime(1970, 1, 1), LAST, datetime(1600, 2, 29), datetime(2200, 1, 1, 12), None,
]  # fmt: skip
COLUMN: dict[str, Any] = {"type": "timestamp", "lower": str(FIRST), "upper": str(LAST)}


def query(**more: Any) -> Query:
    columns = {"low": {"quantile": {"of": "t", "at": "0.3"}}, "last": {"max": "t"}}
    return ask(declare({"t": {**COLUMN, **more}}), columns)


def arrow(kind: pa.DataType) -> pa.Table:
    return pa.table({"t": pa.array(TIMES, pa.timestamp("us")).cast(kind)})


FRAMES: dict[str, Any] = {
    "timestamp us": lambda: arrow(pa.timestamp("us")),
    "timestamp ms": lambda: arrow(pa.timestamp("ms")),
    "in UTC": lambda: arrow(pa.timestamp("us", "UTC")),
    "datetime64 us": lambda: pd.DataFrame({"t": np.array(TIMES, dtype="datetime64[us]")}),
    "datetime64 ms": lambda: pd.DataFrame({"t": np.array(TIMES, dtype="datetime64[ms]")}),
    "objects": lambda: pd.DataFrame({"t": pd.Series(TIMES, dtype=object)}),
    "texts": lambda: pd.DataFrame({"t": [None if at is None else str(at) for at in TIMES]}),
    "texts in UTC": lambda: pd.DataFrame(
        {"t": [None if at is None else at.replace(tzinfo=UTC).isoformat() for at in TIMES]}
    ),
    "polars": lambda: pl.DataFrame({"t": TIMES}),
}


def reference() -> list[int]:
    """Return the seconds since 1970 of all times within the bounds, fractions cut off."""
    start = datetime(1970, 1, 1)
    known = [at for at in TIMES if at is not None and FIRST <= at < LAST + timedelta(seconds=1)]
    return [(at - start) // timedelta(seconds=1) for at in known]


@pytest.mark.parametrize("stored", FRAMES)
def test_timestamp_quantiles_are_equal_for_all_types(stored: str) -> None:
    asked = query()
    found = exact(asked, FRAMES[stored]())
    held = reference()
    aggregate = asked.measurements[0].aggregate
    candidates = range(aggregate.lower, aggregate.upper + 1)  # type: ignore[attr-defined]
    below = np.array([sum(x < c for x in held) for c in candidates])
    upto = np.array([sum(x <= c for x in held) for c in candidates])
    rank = 3 * len(held)
    scores = -np.maximum(0, np.maximum(10 * below - rank, rank - 10 * upto))
    assert found["low"][0].tolist() == scores.tolist()


def test_timestamp_quantiles_of_texts_in_a_format() -> None:
    whole = [None if at is None else at.replace(microsecond=0) for at in TIMES]
    texts = pd.DataFrame({"t": [None if at is None else f"{at:%d.%m.%Y %H:%M:%S}" for at in whole]})
    wanted = exact(query(), pd.DataFrame({"t": pd.Series(whole, dtype=object)}))
    found = exact(query(format="%d.%m.%Y %H:%M:%S"), texts)
    assert found["low"].tolist() == wanted["low"].tolist()


def test_invalid_timestamps_do_not_stop_a_run() -> None:
    odd = ["infinity", "-infinity", "", "1970-02-30 00:00:00", "24:00", "9999999-01-01", "x"]
    frame = pd.DataFrame({"t": [*odd, "1970-01-01 00:00:03"]})
    alone = pd.DataFrame({"t": ["1970-01-01 00:00:03"]})
    assert exact(query(), frame)["low"].tolist() == exact(query(), alone)["low"].tolist()


@pytest.mark.parametrize(
    "at", [FIRST - timedelta(microseconds=1), LAST + timedelta(seconds=1), datetime(1, 1, 1)]
)
def test_timestamps_outside_the_bounds_are_missing(at: datetime) -> None:
    """In quantiles, in counts and in conditions."""
    frame = pd.DataFrame({"t": pd.Series([at, datetime(1970, 1, 1)], dtype=object)})
    alone = pd.DataFrame({"t": pd.Series([None, datetime(1970, 1, 1)], dtype=object)})
    columns = {"m": {"median": "t"}, "n": {"count": "t"}}
    asked = ask(declare({"t": COLUMN}), columns)
    found, wanted = exact(asked, frame), exact(asked, alone)
    assert found["m"].tolist() == wanted["m"].tolist()
    assert found["n"].tolist() == wanted["n"].tolist() == [1]
    condition = ask(declare({"t": COLUMN}), {"n": {"count": "*"}}, where="t IS NULL")
    assert exact(condition, frame)["n"].tolist() == [1]


def test_last_second_includes_its_fractions() -> None:
    frame = pd.DataFrame({"t": [LAST + timedelta(microseconds=999_999)]})
    scores = exact(query(), frame)["last"][0]
    assert scores[-1] == scores.max()


def test_quantiles_of_the_widest_timestamp_bounds() -> None:
    columns = {"t": {"type": "timestamp", "lower": "0001-01-01", "upper": "9999-12-31 23:59:59"}}
    found = ask(declare(columns), {"m": {"median": "t", "interval": False}})
    frame = pd.DataFrame(
        {"t": ["0001-01-01 00:00:00", "9999-12-31 23:59:59", "1970-01-01 00:00:00"]}
    )
    scores = exact(found, frame)["m"][0]
    aggregate: Any = found.measurements[0].aggregate
    best = aggregate.lower + int(scores.argmax()) * aggregate.stride
    assert abs(best) < aggregate.stride  # 1970-01-01 is second 0


@pytest.mark.parametrize("word", ["sum", "mean", "variance", "stddev", "mode"])
def test_timestamps_have_no_sums(word: str) -> None:
    with pytest.raises(QueryError, match=r"DP-QUERY-00[46]"):
        ask(declare({"t": COLUMN}), {"m": {word: "t"}})


def test_quantiles_of_unbounded_timestamps_are_refused() -> None:
    with pytest.raises(QueryError, match="DP-QUERY-003"):
        ask(declare({"t": {"type": "timestamp"}}), {"m": {"median": "t"}})


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        ({"lower": "2024-01-01"}, "DP-SCHEMA-012"),
        ({"lower": "2024-01-02", "upper": "2024-01-01 23:59:59"}, "DP-SCHEMA-001"),
        ({"lower": "2024-01-01 25:00", "upper": "2025-01-01"}, "DP-DECL-003"),
        ({"lower": "2024-01-01 00:00:00.5", "upper": "2025-01-01"}, "DP-DECL-003"),
        ({"lower": "yesterday", "upper": "2025-01-01"}, "DP-DECL-003"),
    ],
)
def test_wrong_timestamp_bounds_are_refused(bounds: dict[str, str], code: str) -> None:
    with pytest.raises(DpReleaseError, match=code):
        declare({"t": {"type": "timestamp", **bounds}})


@pytest.mark.parametrize(
    "option",
    [{"non_negative": True}, {"round_to": 7}, {"bottom_code": 3}, {"suppress_above": "30 %"}, {"decimals": 1}],
    ids=str,
)  # fmt: skip
def test_numeric_options_of_timestamps_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="DP-QUERY-019"):
        ask(declare({"t": COLUMN}), {"m": {"median": "t", **option}})


YEAR: dict[str, Any] = {
    "g": {"type": "integer", "lower": 0, "upper": 59},
    "at": {"type": "timestamp", "lower": "2024-01-01", "upper": "2024-12-31 23:59:59"},
}
TRIES = 60


def spread_over_a_year(rows: int) -> pd.DataFrame:
    """Return the same times in each group."""
    seconds = (np.arange(rows) + 0.5) / rows * 200 * 86_400
    at = pd.Timestamp("2024-02-01") + pd.to_timedelta(seconds.astype(int), "s")
    return pd.DataFrame({"g": np.repeat(np.arange(TRIES), rows), "at": np.tile(at, TRIES)})


@pytest.mark.each
@pytest.mark.parametrize("rows", [30, 800])
@pytest.mark.parametrize("formats", [[], ["csv", "excel", "json-stat", "sdmx-csv", "datapackage"]])
def test_timestamp_intervals_cover_the_truth(tmp_path: Path, rows: int, formats: list[str]) -> None:
    """In small and large groups; the release is verified in every format."""
    (tmp_path / "t.yaml").write_text(json.dumps({"table": "t", "columns": YEAR}))
    columns = {
        "n": {"count": "*"}, "middle": {"median": "at"}, "first": {"min": "at"},
        "late": {"quantile": {"of": "at", "at": "0.9"}, "interval": "99 %"},
    }  # fmt: skip
    queries = {"q": {"from": "t", "group_by": ["g"], "columns": columns}}
    release = {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 4}, "output": "out"}
    path = tmp_path / "r.yaml"
    path.write_text(json.dumps({**release, "queries": queries, "formats": formats}))
    out = dprelease.read_release(path).run(frames={"t": spread_over_a_year(rows)})
    assert dprelease.verify(out).ok
    table = pq.read_table(out / "q.parquet")
    assert table.schema.field("middle").type == pa.timestamp("us")
    found = table.to_pandas()
    times = np.sort(spread_over_a_year(rows)["at"].unique())
    for name, at in (("middle", 0.5), ("late", 0.9), ("first", 0.0)):
        truth = times[max(int(np.ceil(at * rows)) - 1, 0)]
        held = (found[f"{name}_lower"] <= truth) & (truth <= found[f"{name}_upper"])
        assert held.mean() > 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / TRIES)
    if rows > 100:
        assert (found["middle"] - times[rows // 2]).abs().median() < pd.Timedelta(days=10)


def test_verify_refuses_fractions_of_seconds(tmp_path: Path) -> None:
    """A published timestamp has no fraction of a second."""
    from tests.release.test_families import reseal

    (tmp_path / "t.yaml").write_text(json.dumps({"table": "t", "columns": YEAR}))
    queries = {"q": {"from": "t", "columns": {"m": {"median": "at"}}}}
    release = {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 4}, "output": "out"}
    (tmp_path / "r.yaml").write_text(json.dumps({**release, "queries": queries}))
    out = dprelease.read_release(tmp_path / "r.yaml").run(frames={"t": spread_over_a_year(50)})
    table = pq.read_table(out / "q.parquet")
    (at,) = table["m"].to_pylist()
    place = table.schema.get_field_index("m")
    odd = pa.array([at + timedelta(microseconds=1)], pa.timestamp("us"))
    pq.write_table(table.set_column(place, table.schema.field("m"), odd), out / "q.parquet")
    reseal(out)
    assert not dprelease.verify(out).ok


STATEMENTS = {
    "MEDIAN(at)": 4, "MIN(at)": 4, "MAX(at) FILTER (WHERE g > 3)": 4,
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY at)": 4, "QUANTILE_CONT(at, 0.25)": 4,
    "MEDIAN(at) + INTERVAL 1 HOUR": 4, "MAX(CAST(at AS DATE))": 4,
    "MEDIAN(CASE WHEN g > 3 THEN at END)": 0,
}  # fmt: skip


@pytest.mark.parametrize("text", STATEMENTS)
def test_timestamp_quantiles_in_statements(tmp_path: Path, text: str) -> None:
    frame = spread_over_a_year(100)
    sql, schema = f"SELECT {text} AS x FROM t", tmp_path / "t.yaml"
    schema.write_text(json.dumps({"table": "t", "columns": YEAR}))
    if not STATEMENTS[text]:
        with pytest.raises(QueryError, match="DP-SQL-006"):
            dprelease.sql(sql, schema, epsilon=4, frames={"t": frame})
        return
    (value,) = dprelease.sql(sql, schema, epsilon=4, frames={"t": frame})["x"]
    assert pd.Timestamp("2024-01-31") < pd.Timestamp(value) < pd.Timestamp("2024-09-01")


def test_timestamp_quantiles_of_the_accessor() -> None:
    frame = spread_over_a_year(400)
    session = dprelease.Session({"table": "t", "columns": YEAR}, epsilon=100)
    frame.dp.use(session)
    found = frame.dp.median("at", epsilon=4)
    assert list(found.columns) == ["value", "lower", "upper"]
    assert (found["lower"] < found["value"]).all()
    grouped = frame.dp.groupby("g").agg({"at": ["min", "median", "max"]}, epsilon=20)
    assert len(grouped) == TRIES
    assert str(grouped["at", "median"].dtype).startswith("datetime64")
    two = frame.dp.quantile("at", [0.25, 0.75], epsilon=4)
    assert len(two.columns) == 6
