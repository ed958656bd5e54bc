"""Every query of `df.dp`: shape, values at a large budget, budget spent, and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import dprelease
from dprelease.errors import BudgetError, DpReleaseError, QueryError, SessionError, UsageError

SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {
        "state": {"type": "category", "values": ["VT", "NH", "ME"]},
        "sex": {"type": "category", "values": ["F", "M"]},
        "age": {"type": "integer", "lower": 0, "upper": 100},
        "pay": {"type": "number", "lower": 0, "upper": 1000, "step": "0.5"},
        "job": {"type": "text"},
    },
}


def frame(n: int = 1200) -> pd.DataFrame:
    i = np.arange(n)
    return pd.DataFrame(
        {
            "state": np.array(["VT", "NH"])[(i % 3 > 0).astype(int)],
            "sex": np.array(["F", "M"])[i // 2 % 2],
            "age": i % 97,
            "pay": (i * 37 % 1900) / 2.0,
            "job": np.array(["baker", "smith", "poet"])[np.minimum(i // 500, 2)],
        }
    )


@pytest.fixture
def df() -> Iterator[pd.DataFrame]:
    session = dprelease.Session(SCHEMA, epsilon=10_000, delta="0.1")
    found = frame()
    found.dp.use(session)
    yield found
    del session  # a frame holds its session by an id only: it has to live until here


EPSILON = 90


@pytest.mark.parametrize(
    ("question", "function", "tolerance"),
    [
        ("sum", "sum", 3000),
        ("mean", "mean", 3),
        ("variance", "var", 900),
        ("stddev", "std", 3),
        ("median", "median", 3),
        ("min", "min", 3),
        ("max", "max", 3),
    ],
)
def test_aggregates_are_close_at_a_large_budget(
    df: pd.DataFrame, question: str, function: str, tolerance: float
) -> None:
    found = getattr(df.dp, question)("pay", by="state", epsilon=EPSILON)
    true = frame().groupby("state")["pay"].agg(function)
    assert found["state"].tolist() == ["VT", "NH", "ME"]
    values = found.set_index("state")["value"]
    assert values[["VT", "NH"]].to_numpy() == pytest.approx(
        true[["VT", "NH"]].to_numpy(), abs=tolerance
    )
    ends = ["moe"] if question == "sum" else ["lower", "upper"]
    assert list(found.columns) == ["state", "value", *ends, "quality"]
    if question != "sum":  # a group without people has no value
        known = found.dropna(subset="value")
        assert ((known["lower"] <= known["value"]) & (known["value"] <= known["upper"])).all()
    told = found.attrs["dprelease_answer"]
    assert float(told["guarantee"]["epsilon"]) <= EPSILON
    assert told["mechanisms"]


WITH_MARGINS: dict[str, tuple[int, float, Any]] = {
    "count": (1, 1.0, lambda dp, **terms: dp.count(**terms)["moe"]),
    "count of a column": (1, 1.0, lambda dp, **terms: dp.count("pay", by="sex", **terms)["moe"]),
    "count_distinct": (1, 1.0, lambda dp, **terms: dp.count_distinct("sex", **terms)["moe"]),
    "sum": (2000, 0.5, lambda dp, **terms: dp.sum("pay", by="state", **terms)["moe"]),
    "sum of integers": (100, 1.0, lambda dp, **terms: dp.sum("age", **terms)["moe"]),
    "value_counts": (1, 1.0, lambda dp, **terms: dp.value_counts("state", **terms)["moe"]),
    "histogram": (1, 1.0, lambda dp, **terms: dp.histogram("age", [0, 9, 50], **terms)["moe"]),
    "agg": (
        1,
        1.0,
        lambda dp, **terms: dp.groupby("sex").agg({"age": "count"}, margins=True, **terms)[
            "age_moe"
        ],
    ),
}
"""Questions, how many steps one row moves an answer, and the step."""


@pytest.mark.each
@pytest.mark.parametrize("question", WITH_MARGINS)
@pytest.mark.parametrize(("epsilon", "confidence"), [("0.1", 0.95), ("0.1", 0.99), ("2", 0.9)])
def test_margins_of_error_equal_quantiles_of_the_noise(
    df: pd.DataFrame, question: str, epsilon: str, confidence: float
) -> None:
    """The least w with P(abs(noise) > w) at most what is left of the confidence.

    For discrete Laplace noise of scale s that is 2 q^(w + 1) / (1 + q), with q = exp(-1 / s).
    """
    shift, step, ask = WITH_MARGINS[question]
    found = ask(df.dp, epsilon=epsilon, confidence=confidence, mechanism="discrete_laplace")
    wanted = set()
    for spent in (1.0, 0.999):  # a plan spends its budget to within a thousandth
        q = np.exp(-spent * float(epsilon) / shift)
        w = np.log((1 - confidence) * (1 + q) / 2) / np.log(q) - 1
        wanted.add(step * np.ceil(w - 1e-9))
    assert min(wanted) <= found.min() == found.max() <= max(wanted)


def test_quantiles_are_ascending(df: pd.DataFrame) -> None:
    found = df.dp.quantile("pay", [0.9, 0.1, 0.5], by=["state", "sex"], epsilon=EPSILON)
    names = [(q, f"{q}_lower", f"{q}_upper", f"{q}_quality") for q in (0.9, 0.1, 0.5)]
    assert list(found.columns) == ["state", "sex", *(name for four in names for name in four)]
    assert (found[0.1] <= found[0.5]).all()
    assert (found[0.5] <= found[0.9]).all()
    # With no budget to speak of, answers are nearly random, and still in order.
    rough = df.dp.quantile("pay", [0.2, 0.4, 0.6, 0.8], by="state", epsilon="1e-3")
    assert (np.diff(rough[[0.2, 0.4, 0.6, 0.8]].to_numpy(), axis=1) >= 0).all()
    one = df.dp.quantile("pay", 0.25, epsilon=EPSILON)
    assert one["value"][0] == pytest.approx(frame()["pay"].quantile(0.25), abs=3)


def test_value_counts_and_crosstabs(df: pd.DataFrame) -> None:
    counts = df.dp.value_counts("state", epsilon=EPSILON)
    assert counts.index.tolist() == ["NH", "VT", "ME"]
    assert counts.index.name == "state"
    assert counts["count"].tolist() == pytest.approx([800, 400, 0], abs=2)
    assert df.dp.value_counts("state", sort=False, epsilon=EPSILON).index[0] == "VT"
    cross = df.dp.crosstab("state", "sex", epsilon=EPSILON)
    assert cross.index.tolist() == ["VT", "NH", "ME"]
    assert cross.columns.tolist() == ["F", "M"]
    true = pd.crosstab(frame()["state"], frame()["sex"])
    assert cross.loc[["NH", "VT"]].to_numpy() == pytest.approx(true.to_numpy(), abs=2)
    assert "guarantee" in cross.attrs["dprelease_answer"]


@pytest.mark.parametrize("closed", ["left", "right"])
def test_histograms(df: pd.DataFrame, closed: str) -> None:
    bins = [0, 10, 50, 96]
    found = df.dp.histogram("age", bins, closed=closed, epsilon=EPSILON)
    assert isinstance(found.index, pd.IntervalIndex)
    assert found.index.closed == closed
    cut = pd.cut(frame()["age"], bins, right=closed == "right")
    assert found["count"].tolist() == pytest.approx(cut.value_counts(sort=False).tolist(), abs=2)
    split = df.dp.histogram("age", bins, by="sex", closed=closed, epsilon=EPSILON)
    assert split.index.names == ["sex", "age"]
    assert len(split) == 6


def test_describe_is_close_to_pandas(df: pd.DataFrame) -> None:
    found = df.dp.describe(["age", "pay"], epsilon=99)
    true = frame()[["age", "pay"]].describe()
    assert found.index.tolist() == true.index.tolist()
    assert list(found.columns) == ["age", "pay"]
    assert found["age"].to_numpy() == pytest.approx(true["age"].to_numpy(), abs=6)
    assert found["pay"].to_numpy() == pytest.approx(true["pay"].to_numpy(), abs=40)
    assert list(df.dp.describe(epsilon=1).columns) == ["age", "pay"]


def test_none_is_the_default(df: pd.DataFrame) -> None:
    """As in pandas: None gives the default mechanism and margins."""
    given: dict[str, Any] = {"mechanism": None, "confidence": None, "private_keys": None}
    answers = [df.dp.count(epsilon=1, **terms).attrs["dprelease_answer"] for terms in ({}, given)]
    assert answers[0] == answers[1]


def test_groupby_agg(df: pd.DataFrame) -> None:
    true = frame().groupby("state")
    found = df.dp.groupby("state").agg({"pay": ["mean", "std"], "age": "median"}, epsilon=99)
    assert found.index.name == "state"
    assert found.columns.tolist() == [("pay", "mean"), ("pay", "std"), ("age", "median")]
    assert found["pay"]["mean"]["NH"] == pytest.approx(true["pay"].mean()["NH"], abs=3)
    named = df.dp.groupby(["state", "sex"]).agg(
        n=("*", "count"), pay=("pay", "mean"), kinds=("state", "nunique"), epsilon=99, margins=True
    )
    assert named.index.names == ["state", "sex"]
    margin, interval = ("", "_moe", "_quality"), ("", "_lower", "_upper", "_quality")
    endings = {"n": margin, "pay": interval, "kinds": margin}
    assert list(named.columns) == [f"{n}{end}" for n, ends in endings.items() for end in ends]
    middle = df.dp.groupby("sex").agg(m=("pay", "median"), epsilon=99, margins=True)
    assert list(middle.columns) == ["m", "m_lower", "m_upper", "m_quality"]
    flat = df.dp.groupby("sex", as_index=False).agg({"age": "mean"}, epsilon=EPSILON)
    assert list(flat.columns) == ["sex", "age"]
    sizes = df.dp.groupby("sex").size(epsilon=EPSILON)
    assert (sizes.name, sizes.index.name) == ("size", "sex")
    assert sizes.sum() == pytest.approx(1200, abs=4)
    assert sizes.attrs["dprelease_answer"]["guarantee"]["epsilon"]
    for wrong in ({"pay": "skew"}, {"nothing": "mean"}):
        with pytest.raises(SessionError, match=r"DP-SESSION-0(09|23)"):
            df.dp.groupby("sex").agg(wrong, epsilon=1)
    with pytest.raises(SessionError, match="DP-SESSION-016"):
        df.dp.groupby("sex").agg(x="mean", epsilon=1)


def test_explain_spends_nothing(df: pd.DataFrame) -> None:
    before = df.dp.session.spent
    plan = df.dp.explain("mean", "pay", by="state", epsilon=1)
    assert plan.index.tolist() == ["answer.sum", "answer.count", "answer"]
    assert plan["cost_alone"].dropna().sum() == pytest.approx(1, rel=1e-3)
    for question, arguments in (
        ("value_counts", ("state",)),
        ("crosstab", ("state", "sex")),
        ("histogram", ("age", [0, 50, 100])),
        ("describe", ("pay",)),
        ("quantile", ("pay", [0.1, 0.2])),
        ("sql", ("SELECT COUNT(*) FROM people",)),
    ):
        assert len(df.dp.explain(question, *arguments, epsilon=1)) >= 1
    assert df.dp.session.spent == before
    with pytest.raises(SessionError, match="DP-SESSION-023"):
        df.dp.explain("skew", "pay", epsilon=1)


def test_computed_columns_conditions_and_private_keys(df: pd.DataFrame) -> None:
    bands = df.dp.derive(
        band={"cut": "age", "edges": [0, 50, 101]},
        rich={"expression": "pay >= 500", "type": "boolean"},
    )
    found = bands.where("sex = 'F'").count(by=["band", "rich"], epsilon=EPSILON)
    assert len(found) == 4
    rows = frame()
    true = ((rows.sex == "F") & (rows.age < 50) & (rows.pay >= 500)).sum()
    assert found["value"][1] == pytest.approx(true, abs=2)
    jobs = df.dp.count(by="job", epsilon=EPSILON, delta="1e-3", private_keys=True)
    assert jobs["job"].tolist() == ["baker", "poet", "smith"]
    assert jobs["value"].tolist() == pytest.approx([500, 200, 500], abs=2)
    with pytest.raises(QueryError, match="DP-QUERY-002"):
        df.dp.count(by="job", epsilon=1)
    with pytest.raises(BudgetError, match="DP-BUDGET-011"):
        df.dp.count(by="job", epsilon=1, private_keys=True)


def test_refused_queries_spend_nothing(df: pd.DataFrame) -> None:
    for ask in (
        lambda: df.dp.mean("job", epsilon=1),
        lambda: df.dp.mode("pay", epsilon=1),
        lambda: df.dp.quantile("pay", 1.5, epsilon=1),
        lambda: df.dp.median("pay", epsilon=1, mechanism="laplace"),
        lambda: df.dp.histogram("age", [5, 1], epsilon=1),
        lambda: df.dp.mean("pay", epsilon=1, confidence=2.0),
    ):
        with pytest.raises(DpReleaseError):
            ask()
    assert df.dp.session.spent.epsilon == 0


TYPES = {
    "arrow strings": lambda f: f.astype({"state": "string[pyarrow]", "sex": "str"}),
    "objects": lambda f: f.astype({"state": object}),
    "categorical": lambda f: f.astype({"state": pd.CategoricalDtype(["VT", "NH", "XX"])}),
    "nullable": lambda f: f.astype({"age": "Int16", "pay": "Float64"}),
    "arrow numbers": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "small": lambda f: f.astype({"age": "int8", "pay": "float32"}),
}


@pytest.mark.parametrize("name", TYPES)
def test_pandas_types_are_read(name: str) -> None:
    session = dprelease.Session(SCHEMA, epsilon=1000)
    rows = TYPES[name](frame())
    rows.dp.use(session)
    found = rows.dp.groupby("state").agg(n=("*", "count"), pay=("pay", "mean"), epsilon=99)
    true = frame().groupby("state")["pay"].agg(["size", "mean"])
    assert found.index.tolist() == ["VT", "NH", "ME"]  # declared categories only
    assert found["n"][["VT", "NH"]].tolist() == pytest.approx(
        true["size"][["VT", "NH"]].tolist(), abs=2
    )
    assert found["pay"]["NH"] == pytest.approx(true["mean"]["NH"], abs=3)
    assert str(found["n"].dtype) == "int64"


def test_days_use_the_declared_time_zone() -> None:
    """Without a declaration, a zone other than UTC is refused."""
    schema: dict[str, Any] = {
        "table": "people",
        "columns": {"day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03"}},
    }
    instants = pd.to_datetime(["2024-01-02 00:30", "2024-01-02 12:00"] * 100)
    rows = pd.DataFrame({"day": instants.tz_localize("Asia/Tokyo")})
    with pytest.raises(DpReleaseError, match=r"DP-DATA-028(?s:.*)time_zone: Asia/Tokyo"):
        counts_by_day(schema, rows)
    local = {**schema, "source": {"frame": "people", "time_zone": "Asia/Tokyo"}}
    assert counts_by_day(local, rows) == pytest.approx([0, 200, 0], abs=2)
    for same in (rows, rows.assign(day=rows["day"].dt.tz_convert("UTC"))):
        utc = {**schema, "source": {"frame": "people", "time_zone": "UTC"}}
        known = utc if same is rows else schema
        assert counts_by_day(known, same) == pytest.approx([100, 100, 0], abs=2)


def counts_by_day(schema: dict[str, Any], rows: pd.DataFrame) -> list[int]:
    session, copy = dprelease.Session(schema, epsilon=1000), rows.copy()
    copy.dp.use(session)
    return copy.dp.count(by="day", epsilon=80)["value"].tolist()  # type: ignore[no-any-return]


def test_describe_refuses_columns_without_numbers(df: pd.DataFrame) -> None:
    """One error, which names no internal column."""
    for column, kind in (("sex", "category"), ("job", "text")):
        with pytest.raises(UsageError) as caught:
            df.dp.describe(["pay", column], epsilon=1)
        message = str(caught.value)
        assert "numeric columns with declared bounds (age, pay), not" in message
        assert f"'{column}', a {kind}" in message
        assert "c1_" not in message


def test_sums_in_sql_are_floats(df: pd.DataFrame, tmp_path: Path) -> None:
    """For a column whose step is no integer, and for values computed from it."""
    asked = "SELECT sex, SUM(pay) AS total, 2 * SUM(pay) AS twice FROM people GROUP BY sex"
    of_session = df.dp.sql(asked, epsilon=EPSILON)
    schema = tmp_path / "people.yaml"
    schema.write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    alone = dprelease.sql(asked, [schema], epsilon=EPSILON, frames={"people": frame()})
    for answer in (of_session, alone):
        assert answer[["total", "twice"]].dtypes.tolist() == [np.dtype("float64")] * 2
    assert df.dp.sum("pay", by="sex", epsilon=EPSILON)["value"].dtype == np.dtype("float64")


def test_normalize_uses_the_noisy_counts(df: pd.DataFrame) -> None:
    """In each cell of the other keys, as in pandas; the budget is that of the counts."""
    for found, true in (
        (
            df.dp.value_counts("state", normalize=True, epsilon=99),
            frame()["state"].value_counts(normalize=True),
        ),
        (
            df.dp.value_counts("state", by="sex", normalize=True, epsilon=99),
            frame().groupby("sex")["state"].value_counts(normalize=True),
        ),
        (
            df.dp.groupby("sex")["state"].value_counts(normalize=True, epsilon=99),
            frame().groupby("sex")["state"].value_counts(normalize=True),
        ),
    ):
        assert list(found.columns) == ["proportion", "lower", "upper"]
        assert (found["lower"] <= found["proportion"]).all()
        assert (found["proportion"] <= found["upper"]).all()
        mine = found["proportion"]
        for key, share in true.items():
            assert mine[key] == pytest.approx(share, abs=0.01)
        groups = mine.groupby("sex") if found.index.nlevels > 1 else [(0, mine)]
        assert [part.sum() for _, part in groups] == pytest.approx([1] * len(list(groups)))
    assert df.dp.session.spent.epsilon == 3 * 99
    nobody = df.dp.where("age < 0").value_counts("state", normalize=True, epsilon=99)
    assert nobody["proportion"].isna().all()


def test_shares_of_private_keys_have_trivial_intervals(df: pd.DataFrame) -> None:
    """Counts of selected keys are biased by the selection, which no margin covers."""
    found = df.dp.value_counts("state", normalize=True, private_keys=True, epsilon=99, delta=1e-3)
    assert found["proportion"].sum() == pytest.approx(1)
    assert set(found["lower"]) == {0}
    assert set(found["upper"]) == {1}


def test_crosstab_has_shares_and_totals(df: pd.DataFrame) -> None:
    """They are computed from the noisy counts, so that parts and totals agree."""
    own = frame()
    for normalize, axis in (("index", 1), ("columns", 0), ("all", None), (True, None)):
        found = df.dp.crosstab("state", "sex", normalize=normalize, epsilon=99)
        true = pd.crosstab(own["state"], own["sex"], normalize=normalize)
        assert found.loc[true.index, true.columns].to_numpy() == pytest.approx(
            true.to_numpy(), abs=0.01
        )
        sums = found.to_numpy().sum(axis=axis)
        assert (
            sums[~np.isnan(sums)] == pytest.approx(1)
            if axis is not None
            else sums == pytest.approx(1)
        )
    found = df.dp.crosstab("state", "sex", totals=True, epsilon=99)
    inner = found.drop(index="All", columns="All")
    assert found["All"].drop("All").tolist() == inner.sum(axis=1).tolist()
    assert found.loc["All"].tolist() == found.drop(index="All").sum().tolist()
    shares = df.dp.crosstab("state", "sex", totals=True, normalize="columns", epsilon=99)
    assert shares.loc["All"].tolist() == pytest.approx([1] * len(shares.columns))


@pytest.mark.parametrize("normalize", ["rows", 1, None, ["index"], 0.5])
def test_wrong_normalize_is_refused(df: pd.DataFrame, normalize: Any) -> None:
    with pytest.raises(UsageError, match=r"DP-SESSION-016.*normalize"):
        df.dp.crosstab("state", "sex", normalize=normalize, epsilon=99)
    assert df.dp.session.spent.epsilon == 0


def test_describe_names_columns_and_computes_no_margins(df: pd.DataFrame) -> None:
    plan = df.dp.explain("describe", ["age", "pay"], epsilon=9)
    assert {"age_count", "pay_mean.sum", "pay_q25", "pay_max"} <= set(plan.index)
    with pytest.raises(SessionError, match="DP-SESSION-009"):
        df.dp.describe(["pay", "nothing"], epsilon=9)
    schema = {"table": "t", "columns": {
        "one": {"type": "integer", "lower": 3, "upper": 3},
        "a b": {"type": "integer", "lower": 0, "upper": 9},
        "one_mean": {"type": "integer", "lower": 0, "upper": 9},
    }}  # fmt: skip
    rows = pd.DataFrame({"one": [3] * 100, "a b": [5] * 100, "one_mean": [4] * 100})
    session = dprelease.Session(schema, epsilon=1000)
    rows.dp.use(session)
    found = rows.dp.describe(epsilon=99)
    assert found["one"].tolist() == pytest.approx([100, 3, 0, 3, 3, 3, 3, 3], abs=1)
    assert found["a b"].tolist() == pytest.approx([100, 5, 0, 5, 5, 5, 5, 5], abs=1)
