"""Results of `df.dp` by keys of every kind: no cell is lost, and no argument is ignored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.errors import DpReleaseError, SessionError

SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {
        "state": {"type": "category", "values": ["VT", "NH", "ME"]},
        "job": {"type": "text"},
        "adult": {"type": "boolean"},
        "age": {"type": "integer", "lower": 0, "upper": 99},
    },
}
LARGE = {"epsilon": 90}
PRIVATE: dict[str, Any] = {"epsilon": 90, "delta": "1e-4", "private_keys": True}


def frame() -> pd.DataFrame:
    i = np.arange(3000)
    age = i * 7 % 100
    # The poets are young and the smiths old: most pairs of a job and a band have nobody.
    job = np.where(age < 18, "poet", np.where(age < 65, "baker", "smith"))
    states = np.array(["VT", "NH", "ME"])[i % 3]
    return pd.DataFrame({"state": states, "job": job, "adult": age >= 18, "age": age})


@pytest.fixture
def session_and_frame() -> tuple[dprelease.Session, pd.DataFrame]:
    session, df = dprelease.Session(SCHEMA, epsilon=10_000, delta="0.1"), frame()
    df.dp.use(session)
    return session, df


@pytest.mark.parametrize(("index", "columns"), [("state", "adult"), ("adult", "state")])
def test_crosstab_of_booleans_has_both_values(
    session_and_frame: Any, index: str, columns: str
) -> None:
    found = session_and_frame[1].dp.crosstab(index, columns, **LARGE)
    true = pd.crosstab(frame()[index], frame()[columns])
    assert found.shape == true.shape
    assert (found - true).abs().to_numpy().max() <= 2


def test_histograms_by_private_keys(session_and_frame: Any) -> None:
    found = session_and_frame[1].dp.histogram("age", [0, 18, 65, 100], by="job", **PRIVATE)
    wanted = {("poet", 0), ("baker", 18), ("smith", 65)}
    assert {(job, band.left) for job, band in found.index} == wanted
    for (job, _), count in found["count"].items():
        assert abs(count - (frame()["job"] == job).sum()) <= 2


@pytest.mark.parametrize("moment", [date(2024, 1, 5), datetime(2024, 1, 5, 6)])
@pytest.mark.parametrize("kind", [lambda one: one, pd.Timestamp, np.datetime64])
def test_timestamps_may_be_sql_parameters(moment: date, kind: Callable[[date], object]) -> None:
    known = pd.Series(pd.date_range("2024-01-01", periods=40, freq="6h"))
    columns = {"at": {"type": "timestamp"}}
    session, df = (
        dprelease.Session({"table": "t", "columns": columns}, epsilon=90),
        known.to_frame("at"),
    )
    df.dp.use(session)
    found = df.dp.sql("SELECT COUNT(*) AS n FROM t WHERE at < ?", params=[kind(moment)], **LARGE)
    assert abs(found["n"].item() - (known < pd.Timestamp(moment)).sum()) <= 1


@pytest.mark.parametrize("by", ["adult", ["state", "adult"]])
def test_describe_by_groups(session_and_frame: Any, by: str | list[str]) -> None:
    found = session_and_frame[1].dp.describe("age", by=by, **LARGE)
    true = frame().groupby(by)["age"].describe()
    assert list(found.columns) == [("age", name) for name in true.columns]
    assert len(found) == len(true)
    for key, row in found.iterrows():
        assert abs(row["age", "count"] - true.loc[key, "count"]) <= 5
        assert abs(row["age", "mean"] - true.loc[key, "mean"]) <= 1


def test_value_counts_by_groups(session_and_frame: Any) -> None:
    found = session_and_frame[1].dp.value_counts("state", by="adult", **LARGE)
    true = frame().groupby("adult")["state"].value_counts()
    assert found.index.names == ["adult", "state"]
    assert [adult for adult, _ in found.index] == [False] * 3 + [True] * 3
    assert all(abs(found.loc[key, "count"] - n) <= 2 for key, n in true.items())
    falling = found.loc[True, "count"].to_numpy()
    assert (np.diff(falling) <= 0).all()


UNHEARD: dict[str, Callable[[Any], object]] = {
    "mean": lambda dp: dp.mean("age", where="age > 50", **LARGE),
    "count": lambda dp: dp.count(mechansim="laplace", **LARGE),
    "describe": lambda dp: dp.describe("age", weight=2, **LARGE),
    "histogram": lambda dp: dp.histogram("age", [0, 50, 100], density=True, **LARGE),
    "crosstab": lambda dp: dp.crosstab("state", "adult", by="job", **LARGE),
    "sql": lambda dp: dp.sql("SELECT count(*) AS n FROM people", by="state", **LARGE),
    "size": lambda dp: dp.groupby("state").size(by="adult", **LARGE),
    "agg": lambda dp: dp.groupby("state").agg({"age": "mean"}, by="adult", **LARGE),
    "a number as bins": lambda dp: dp.histogram("age", bins=5, **LARGE),
    "no bins": lambda dp: dp.histogram("age", bins=None, **LARGE),
    "one function": lambda dp: dp.groupby("state").agg("mean", **LARGE),
    "functions alone": lambda dp: dp.groupby("state").agg(["mean"], **LARGE),
    "a number as a key": lambda dp: dp.count(by=3, **LARGE),
    "a number among keys": lambda dp: dp.count(by=["state", 3], **LARGE),
    "confidence": lambda dp: dp.count(confidence="many", **LARGE),
    "twice": lambda dp: dp.groupby("state").agg({"age": ["mean", "mean"]}, **LARGE),
    "one over the other": lambda dp: dp.groupby("state").agg(
        {"age": "mean"}, age=("age", "sum"), **LARGE
    ),
    "a margin's name": lambda dp: dp.groupby("state").agg(
        x=("age", "mean"), x_moe=("age", "max"), margins=True, **LARGE
    ),
    "a key's name": lambda dp: dp.groupby("state", as_index=False).agg(
        state=("age", "mean"), **LARGE
    ),
}


@pytest.mark.parametrize("name", sorted(UNHEARD))
def test_arguments_without_effect_are_refused(session_and_frame: Any, name: str) -> None:
    session, df = session_and_frame
    before = session.remaining
    with pytest.raises(SessionError):
        UNHEARD[name](df.dp)
    assert session.remaining == before


def test_result_may_have_the_name_of_its_key(session_and_frame: Any) -> None:
    found = session_and_frame[1].dp.groupby("state").agg(state=("age", "mean"), **LARGE)
    assert found.index.tolist() == ["VT", "NH", "ME"]
    assert found["state"].between(40, 60).all()


@pytest.mark.parametrize("kind", [np.float64, np.float32, Decimal, float])
def test_bins_of_every_number_type(session_and_frame: Any, kind: Any) -> None:
    df = session_and_frame[1]
    bins = [kind("0.5"), kind("50.5"), kind("99.5")]
    found = df.dp.histogram("age", bins, epsilon=np.float64(90))
    assert [band.left for band in found.index] == [0.5, 50.5]
    assert found.attrs["dprelease_answer"]
    halves = df.dp.quantile("age", np.array([0.25, 0.5]), **LARGE)
    assert halves.columns.tolist()[::4] == [0.25, 0.5]  # each with its interval and quality
    assert halves.columns.tolist()[1:4] == ["0.25_lower", "0.25_upper", "0.25_quality"]
    assert abs(df.dp.quantile("age", kind("0.25"), **LARGE)["value"][0] - 25) <= 2
    assert abs(df.dp.quantile("age", np.int64(1), **LARGE)["value"][0] - 99) <= 2
    whole = df.dp.histogram("age", np.arange(0, 101, 50), **LARGE)
    assert [band.left for band in whole.index] == [0, 50]


def test_pandas_names_of_columns_and_keys(session_and_frame: Any) -> None:
    df = session_and_frame[1]
    named = df.dp.groupby("state").agg(pay=pd.NamedAgg("age", "mean"), **LARGE)
    assert named.columns.tolist() == ["pay"]
    assert len(df.dp.count(by=None, **LARGE)) == 1
    assert len(df.dp.count(by=np.array(["state", "adult"]), **LARGE)) == 6
    with pytest.raises(DpReleaseError):
        df.dp.count(by=["state", "nowhere"], **LARGE)
