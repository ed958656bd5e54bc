"""`df.dp`: a budget that follows frames, and is never exceeded."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease
from dprelease.errors import BudgetError, DpReleaseError, QueryError, SessionError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from tests import processes

SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {
        "state": {"type": "category", "values": ["VT", "NH"]},
        "value": {"type": "boolean"},
        "age": {"type": "integer", "lower": 0, "upper": 115},
        "pay": {"type": "number", "lower": 0, "upper": 100, "step": "0.5"},
    },
}


def frame(n: int = 200) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "state": ["VT", "NH"] * (n // 2),
            "value": [True, False] * (n // 2),
            "age": [i % 90 for i in range(n)],
            "pay": [i % 50 + 0.25 for i in range(n)],
            "note": range(n),
        }
    )


def registered_frame(epsilon: Any = 100, **more: Any) -> tuple[pd.DataFrame, Any]:
    session = dprelease.Session(SCHEMA, epsilon=epsilon, **more)
    df = frame()
    df.dp.use(session)
    return df, session


def test_queries_are_answered_and_charged() -> None:
    df, session = registered_frame()
    found = df.dp.count(by=["state", "value"], epsilon=20)
    assert list(found.columns) == ["state", "value", "value_", "moe", "quality"]
    assert found["state"].tolist() == ["VT", "VT", "NH", "NH"]
    assert found["value"].tolist() == [False, True, False, True]
    assert found["value_"].tolist() == pytest.approx([0, 100, 100, 0], abs=3)
    total = (
        df.dp.where("age >= 18").where("state = 'VT'").sum("pay", epsilon=20, mechanism="laplace")
    )
    rows = frame()
    true = rows[(rows.age >= 18) & (rows.state == "VT")].pay.sum()
    assert total["value"][0] == pytest.approx(true, abs=150)
    kinds = df.dp.count_distinct("state", epsilon=20)
    assert kinds["value"].tolist() == pytest.approx([2], abs=3)
    assert session.spent.epsilon == 60
    assert "epsilon 40, delta 0 left" in repr(session)


def test_budget_is_shared_by_frames_and_never_exceeded() -> None:
    df, session = registered_frame("1")
    for _ in range(10):
        df.copy().assign(other=1)[["age", "state"]].dp.count(epsilon=0.1)
    assert session.remaining.epsilon == 0  # ten times 0.1 is 1: decimals, not floats (V44)
    for price in ("5e-324", 0.1):
        with pytest.raises((BudgetError, SessionError), match=r"DP-BUDGET-0(90|01)|DP-SESSION-006"):
            df.dp.count(epsilon=price)
    other, session = registered_frame("1")
    with pytest.raises(BudgetError, match="DP-BUDGET-090"):
        other.dp.count(epsilon=1, delta="1e-9")
    assert session.spent.epsilon == 0
    other.dp.count(epsilon=1)
    with pytest.raises(BudgetError, match="no row was read"):
        other.dp.count(epsilon="1e-6")


RHO_QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "rho": ({"rho": "0.02"}, "0.02"),
    "rho, told at a delta": (
        {"rho": "0.02", "delta": "1e-6", "mechanism": "discrete_laplace"},
        "0.02",
    ),
    "rho, Gaussian": ({"rho": "0.02", "mechanism": "discrete_gaussian"}, "0.02"),
    # Discrete Laplace noise of epsilon e: about e tanh(e / 2), its Kullback-Leibler divergence.
    "epsilon": ({"epsilon": "0.2", "mechanism": "discrete_laplace"}, "0.02"),
    "epsilon and delta": (
        {"epsilon": "0.5", "delta": "1e-9", "mechanism": "discrete_gaussian"},
        "0.0044",
    ),
}


@pytest.mark.each
@pytest.mark.parametrize("name", RHO_QUESTIONS)
@pytest.mark.parametrize("ask", ["count", "sql", "agg"])
def test_sessions_in_rho_are_charged(name: str, ask: str, tmp_path: Path) -> None:
    """With the declared rho or the rho of the query; the ledger equally."""
    ledger = Ledger(tmp_path / "l")
    rows = Account("office/people", "add_remove", "each row", None, Fraction(0), Fraction(1))
    ledger.open_account(rows)
    session = dprelease.Session(
        {**SCHEMA, "owner": "office"}, rho="0.05", delta="1e-9", ledger=ledger.path
    )
    df = frame()
    df.dp.use(session)
    terms, price = RHO_QUESTIONS[name]
    questions: dict[str, Callable[[], pd.DataFrame]] = {
        "count": lambda: df.dp.count(**terms),
        "sql": lambda: df.dp.sql("SELECT COUNT(*) AS n FROM people", **terms),
        "agg": lambda: df.dp.groupby("state").agg({"age": "count"}, **terms),
    }
    assert "rho 0.05, delta 1e-09 left" in repr(session)
    for number in range(1, 3):
        told = questions[ask]().attrs["dprelease_answer"]["guarantee"]
        assert session.spent.rho is not None
        assert session.remaining.rho == Fraction("0.05") - session.spent.rho
        assert float(session.spent.rho) == pytest.approx(number * float(price), rel=0.02)
        # The session charges what was declared, or to the last digit what the ledger counts.
        charged = ledger.state().spent("office/people")
        if "rho" in terms:
            assert session.spent.rho == number * Fraction(price)
            assert 0.998 * session.spent.rho < charged <= session.spent.rho
            assert told["delta"] == {"1e-6": "0.000001"}.get(terms.get("delta"), "0.000000001")
        else:
            assert session.spent.rho == charged
    if price == "0.02":
        with pytest.raises(BudgetError, match=r"DP-BUDGET-090.*rho 0.0[12]"):
            questions[ask]()
        assert len(list(ledger.state().charges("office/people"))) == 2


@pytest.mark.parametrize("ask", ["rho", "epsilon"])
def test_private_keys_spend_delta_in_a_session_in_rho(ask: str) -> None:
    """Their selection spends a part of the session's delta."""
    session = dprelease.Session(SCHEMA, rho=100, delta="1e-6")
    df = frame()
    df.dp.use(session)
    price: dict[str, Any] = {"rho": {"rho": 20}, "epsilon": {"epsilon": 8, "delta": "1e-6"}}[ask]
    for number in (1, 2):
        before = session.spent
        found = df.dp.count(by="age", private_keys=True, **price)
        guarantee = found.attrs["dprelease_answer"]["guarantee"]
        charged = session.spent - before
        assert 0 < charged.delta <= Fraction("5e-7")
        assert "gaussian_threshold" in found.attrs["dprelease_answer"]["mechanisms"].values()
        if ask == "rho":
            assert charged.rho == 20
            assert float(guarantee["rho_delta"]) == float(charged.delta)
        assert session.remaining.delta == Fraction("1e-6") - session.spent.delta, number
    spent = session.spent
    with pytest.raises(BudgetError, match=r"DP-BUDGET-090.*delta"):
        df.dp.count(by="age", private_keys=True, rho="0.01", delta="0.01")
    assert session.spent == spent
    without = dprelease.Session(SCHEMA, rho=100)
    other = frame()
    other.dp.use(without)
    with pytest.raises(BudgetError, match="DP-BUDGET-011"):
        other.dp.count(by="age", private_keys=True, rho=1)
    assert without.spent.rho == 0


@pytest.mark.parametrize("price", [{"epsilon": 0.2}, {"epsilon": 0.5, "delta": "1e-6"}], ids=str)
@pytest.mark.parametrize("ask", ["count", "mean", "sql", "tables"])
def test_auto_selects_noise_with_a_rho_in_rho_sessions(ask: str, price: Any) -> None:
    """Without a ledger too: noise without a rho would be refused."""
    session = dprelease.Session(SCHEMA, rho=1, delta="1e-9")
    df = frame()
    df.dp.use(session)
    questions: dict[str, Callable[[], object]] = {
        "count": lambda: df.dp.count(**price),
        "mean": lambda: df.dp.mean("pay", by="state", **price),
        "sql": lambda: df.dp.sql("SELECT COUNT(*) AS n FROM people", **price),
        "tables": lambda: df.dp.tables(rollup=["state"], **price),
    }
    questions[ask]()
    assert 0 < session.spent.rho < 0.13


def test_sessions_need_epsilon_or_rho() -> None:
    for budget in ({}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(SessionError, match="DP-SESSION-011"):
            dprelease.Session(SCHEMA, **budget)
    for rho in (0, -1, float("nan"), "x"):
        with pytest.raises(SessionError, match="DP-SESSION-006"):
            dprelease.Session(SCHEMA, rho=rho)
    df, session = registered_frame()
    with pytest.raises(SessionError, match="DP-SESSION-015"):
        df.dp.count()
    for price in ({"rho": 1}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(SessionError, match="DP-SESSION-011"):
            df.dp.count(**price)
    assert session.spent.epsilon == 0
    session = dprelease.Session(SCHEMA, rho=5)
    df = frame()
    df.dp.use(session)
    assert "rho 0.1" in df.dp.explain("count", rho="0.1").attrs["dprelease_answer"]["price"]
    unbounded = {"epsilon": 1, "delta": "1e-6", "mechanism": "truncated_laplace"}
    with pytest.raises(BudgetError, match="DP-BUDGET-010"):
        df.dp.count(**unbounded)
    assert session.spent.rho == 0


def test_charge_precedes_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    df, session = registered_frame(1)
    seen = []

    def fails(*_: object) -> None:
        seen.append(session.spent.epsilon)
        raise SessionError("DP-SESSION-004")

    monkeypatch.setattr("dprelease.release.execute.answer_query", fails)
    with pytest.raises(SessionError):
        df.dp.count(epsilon="0.25")
    assert seen == [Fraction(1, 4)]
    assert session.spent.epsilon == Fraction(1, 4)


def test_parallel_queries_never_exceed_the_budget() -> None:
    """(V46)"""
    df, session = registered_frame(1)
    done: list[bool] = []

    def ask() -> None:
        try:
            df.dp.count(epsilon="0.1")
            done.append(True)
        except BudgetError:
            done.append(False)

    processes.in_threads([ask] * 24)
    assert sum(done) == 10
    assert session.remaining.epsilon == 0


DERIVED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "filter": lambda f: f[f.age > 30],
    "head": lambda f: f.head(5),
    "sample": lambda f: f.sample(10),
    "sort": lambda f: f.sort_values("age"),
    "concat": lambda f: pd.concat([f, f]),
    "changed column": lambda f: f.assign(age=f.age.mean()),
    "shifted": lambda f: f.shift(1),
    "merge": lambda f: f.merge(f[["note"]], on="note", how="left").iloc[::-1],
    "other type": lambda f: f.assign(age=f.age.astype(float)),
    "grouped": lambda f: f.groupby("state", as_index=False).sum(numeric_only=True),
    "reset after filter": lambda f: f[f.age > 30].reset_index(drop=True),
}


@pytest.mark.parametrize("name", DERIVED)
def test_frames_of_other_rows_are_refused(name: str) -> None:
    """pandas copies attrs into every result, which must not use the budget as the data (V28)."""
    df, session = registered_frame()
    derived = DERIVED[name](df)
    with pytest.raises(SessionError, match=r"DP-SESSION-00[12]"):
        derived.dp.count(epsilon=1)
    derived.attrs["dprelease"] = df.attrs["dprelease"]
    with pytest.raises(SessionError, match=r"DP-SESSION-002"):
        derived.dp.use(session)
    assert session.spent.epsilon == 0
    derived.dp.use(session, row_wise=True)
    assert derived.dp.session is session


def test_frame_changed_in_place_is_refused() -> None:
    df, _ = registered_frame()
    df.loc[0, "age"] = 5 + df.loc[0, "age"]
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        df.dp.count(epsilon=1)


def test_frames_without_a_session_are_refused() -> None:
    with pytest.raises(SessionError, match="DP-SESSION-001"):
        dprelease.dp(frame()).count(epsilon=1)
    df, session = registered_frame()
    with pytest.raises(SessionError, match="DP-SESSION-003"):
        df.dp.use(dprelease.Session(SCHEMA, epsilon=1))
    del session
    import gc

    gc.collect()
    with pytest.raises(SessionError, match="DP-SESSION-004"):
        df.dp.count(epsilon=1)


@pytest.mark.parametrize("given", ["people.yaml", SCHEMA, None])
def test_use_accepts_only_sessions(given: Any) -> None:
    """Users may pass the path of a schema."""
    with pytest.raises(SessionError, match=r"DP-SESSION-019.*session"):
        frame().dp.use(given)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_sessions_can_not_be_copied() -> None:
    _, session = registered_frame()
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(SessionError, match="DP-SESSION-005"):
            copier(session)
    child = os.fork()
    if child == 0:
        try:
            session._charge(session.remaining, "a copy")
        except SessionError:
            os._exit(0)
        os._exit(1)
    assert processes.ended(child) == 0


def test_wrong_budgets_and_confidences_are_refused() -> None:
    for epsilon in (0, -1, float("nan"), float("inf"), "x", "1e9999"):
        with pytest.raises(SessionError, match="DP-SESSION-006"):
            dprelease.Session(SCHEMA, epsilon=epsilon)
    with pytest.raises(SessionError, match="DP-SESSION-016"):
        dprelease.Session(SCHEMA, epsilon=True)
    with pytest.raises(SessionError, match="DP-SESSION-007"):
        dprelease.Session(SCHEMA, epsilon=1, neighbours="both")
    df, session = registered_frame()
    for epsilon in (0, -1, float("nan"), float("inf")):
        with pytest.raises(SessionError, match="DP-SESSION-006"):
            df.dp.count(epsilon=epsilon)
    with pytest.raises(SessionError, match="DP-SESSION-006"):
        df.dp.count(epsilon=1, confidence=1.0)
    assert session.spent.epsilon == 0


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda dp: dp.count(by="nothing", epsilon=1), QueryError),
        (lambda dp: dp.count(by=["state", "state"], epsilon=1), QueryError),
        (lambda dp: dp.sum("state", epsilon=1), QueryError),
        (lambda dp: dp.count_distinct("pay", epsilon=1), QueryError),
        (lambda dp: dp.where("1 = 1) OR (1 = 1").count(epsilon=1), QueryError),
        (lambda dp: dp.where("age > (SELECT 1)").count(epsilon=1), QueryError),
        (lambda dp: dp.count(epsilon=1, mechanism="gaussian"), BudgetError),
        (lambda dp: dp.count(epsilon=1, mechanism="laplca"), BudgetError),
        (lambda dp: dp.count(by=[3], epsilon=1), DpReleaseError),
        (lambda dp: dp.skew("age", epsilon=1), AttributeError),
    ],
)
def test_unbounded_queries_are_refused_without_a_charge(ask: Any, kind: type[Exception]) -> None:
    df, session = registered_frame()
    with pytest.raises(kind):
        ask(df.dp)
    assert session.spent.epsilon == 0


def test_results_do_not_change() -> None:
    """(V41)"""
    df, _ = registered_frame()
    found = df.dp.count(by="state", epsilon=1)
    assert found.equals(found.copy())
    assert set(found.attrs) == {"dprelease_answer"}  # plain values, no session


def test_session_from_a_schema_file(tmp_path: Path) -> None:
    import yaml

    (tmp_path / "people.yaml").write_text(yaml.safe_dump(SCHEMA))
    df = frame()
    session = dprelease.Session(
        tmp_path / "people.yaml", epsilon=1, delta="1e-9", neighbours="replace"
    )
    df.dp.use(session)
    assert len(df.dp.count(by="age", epsilon=1, delta="1e-9", mechanism="gaussian")) == 116
