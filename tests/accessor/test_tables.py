"""`df.dp.tables`: several tables from a session, by all ways to declare their keys."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import yaml

import dprelease
from dprelease.accessor.session import Spending
from dprelease.errors import BudgetError, DpReleaseError, QueryError, SessionError, UsageError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.privacy.renyi import rho_of
from dprelease.release import execute
from tests.accessor.test_queries import EPSILON, SCHEMA, frame

KEPT: list[Any] = []
WAYS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "marginals": (
        {"marginals": [[], ["state"], ["sex", "state"]]},
        ["total", "state", "sex_state"],
    ),
    "cube": ({"cube": ["state", "sex"]}, ["total", "state", "sex", "state_sex"]),
    "rollup": ({"rollup": ["state", "sex"]}, ["total", "state", "state_sex"]),
    "hierarchy": ({"hierarchy": ["state", "sex"]}, ["total", "state", "sex"]),
}


@pytest.fixture(autouse=True)
def _end_sessions() -> Iterator[None]:
    """Each session keeps a DuckDB and a folder, which all later engines look at."""
    yield
    KEPT.clear()


def registered_frame(**budget: object) -> pd.DataFrame:
    session = dprelease.Session(SCHEMA, **(budget or {"epsilon": 10_000}))
    rows = frame()
    rows.dp.use(session)
    KEPT.append(session)  # a frame holds its session by an id only
    return rows


@pytest.mark.parametrize("way", WAYS)
def test_each_table_has_the_counts_of_its_keys(way: str) -> None:
    keys, names = WAYS[way]
    rows = registered_frame()
    tables = rows.dp.tables(**keys, epsilon=EPSILON)
    assert list(tables) == names
    for name, table in tables.items():
        by = [] if name == "total" else name.split("_")
        true = rows.groupby(by).size() if by else pd.Series([len(rows)])
        assert [key for key in table.index.names if key is not None] == by
        for key, n in true.items():
            assert table["count"][key] == pytest.approx(n, abs=4)
    told = tables.attrs["dprelease_answer"]
    assert float(told["guarantee"]["epsilon"]) <= EPSILON
    assert list(told["tables"]) == names
    assert rows.dp.session.spent == Spending(Fraction(EPSILON), Fraction(0))


def test_tables_with_conditions_and_computed_keys() -> None:
    rows = registered_frame()
    chosen = rows.dp.where("age < 50").derive(band={"cut": "age", "edges": [0, 25, 50]})
    columns = {"people": {"count": "*"}, "pay": {"sum": "pay"}}
    tables = chosen.tables(columns, marginals=[["band"], ["band", "sex"]], epsilon=EPSILON)
    endings = ("", "_moe", "_quality")
    wanted = [f"{name}{ending}" for name in columns for ending in endings]
    assert list(tables["band"].columns) == wanted
    young = rows[rows["age"] < 25]
    assert tables["band"]["people"].iloc[0] == pytest.approx(len(young), abs=4)
    assert tables["band"]["pay"].iloc[0] == pytest.approx(young["pay"].sum(), abs=4000)


def test_ledger_is_charged_once_for_all_tables(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    schema = {**SCHEMA, "owner": "office"}
    account = Account("office/people", "add_remove", "each row", Fraction(5), Fraction(0), None)
    ledger.open_account(account)
    session = dprelease.Session(schema, epsilon=5, ledger=ledger.path)
    rows = frame()
    rows.dp.use(session)
    rows.dp.tables(cube=["state", "sex"], epsilon=2)
    (reservation,) = ledger.state().reservations.values()
    assert reservation.is_charged
    assert session.spent.epsilon == 2
    with pytest.raises(BudgetError):
        rows.dp.tables(cube=["state", "sex"], epsilon=4)
    assert session.spent.epsilon == 2


def test_explain_lists_every_table_and_spends_nothing() -> None:
    rows = registered_frame()
    plan = rows.dp.explain("tables", cube=["state", "sex"], epsilon=1)
    assert plan.index.names == ["table", "column"]
    assert len(plan) == 4
    assert plan["cost_alone"].sum() == pytest.approx(1, rel=1e-3)
    assert rows.dp.session.spent.epsilon == 0


NESTED: dict[str, Any] = {
    "table": "people",
    "columns": {
        "state": {"type": "category", "values": ["VT", "NH", "ME"]},
        "town": {"type": "category", "values_from": "towns.csv", "within": "state"},
        "sex": {"type": "category", "values": ["F", "M"]},
        "pay": {"type": "integer", "lower": 0, "upper": 100},
    },
}
TOWNS = {"a": "VT", "b": "NH", "c": "NH", "d": "ME", "e": "VT"}


def nested(folder: Path) -> pd.DataFrame:
    """Return rows of towns within states, registered in a session."""
    lines = ["town,state", *(f"{town},{state}" for town, state in TOWNS.items())]
    (folder / "towns.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.yaml").write_text(yaml.safe_dump(NESTED, sort_keys=False))
    session = dprelease.Session(folder / "people.yaml", rho=1000, delta="1e-9")
    i = np.arange(2000)
    rows = pd.DataFrame(
        {
            "town": np.array([*"abcde"])[i % 5],
            "sex": np.array(["F", "M"])[i // 7 % 2],
            "pay": i % 90,
        }
    )
    rows.dp.use(session)
    KEPT.append(session)
    return rows


CONSISTENT: dict[str, Any] = {
    "hierarchy": ["state", "town"],
    "marginals": [[], ["sex"]],
    "mechanism": "discrete_gaussian",
}


@pytest.mark.parametrize("consistent", [True, {"non_negative": True}], ids=str)
def test_consistent_tables_add_up(tmp_path: Path, consistent: Any) -> None:
    """Sums over levels and keys agree exactly, and are close to the truth at a large budget."""
    rows = nested(tmp_path)
    columns = {"n": {"count": "*"}, "pay": {"sum": "pay"}}
    tables = rows.dp.tables(columns, **CONSISTENT, consistent=consistent, rho=90)
    assert list(tables) == ["total", "sex", "state", "state_sex", "town", "town_sex"]
    for name in columns:
        whole = tables["total"][name].iloc[0]
        assert {float(table[name].sum()) for table in tables.values()} == {float(whole)}
    true = rows.groupby("town").size()
    assert tables["town"]["n"][["a", "b"]].to_numpy() == pytest.approx(true[["a", "b"]], abs=3)
    state = rows["town"].map(TOWNS)
    assert tables["state"]["pay"]["NH"] == pytest.approx(rows["pay"][state == "NH"].sum(), abs=150)
    assert list(tables.measurements) == list(tables) == list(tables.estimates)
    assert set(tables.measurements["sex"].columns) == {"n", "pay"}
    assert rows.dp.session.spent == Spending(rho=Fraction(90))
    drawn = tables.plot("pay")
    assert len(drawn.get_lines()) == len(tables)
    with pytest.raises(SessionError, match="DP-SESSION-008"):
        tables.plot("nothing")


def test_levels_may_have_additional_tables(tmp_path: Path) -> None:
    rows = nested(tmp_path)
    tables = rows.dp.tables(**CONSISTENT, marginals_at={"town": [["sex"]]}, consistent=True, rho=9)
    assert list(tables) == ["total", "sex", "state", "state_sex", "town_sex"]
    assert len({float(table["count"].sum()) for table in tables.values()}) == 1
    for wrong in ([["sex"]], {"town": "sex"}, {"town": ["sex"]}):
        with pytest.raises(UsageError, match="DP-SESSION-016"):
            rows.dp.tables(**CONSISTENT, marginals_at=wrong, consistent=True, rho=9)


def test_synthetic_records_are_returned_with_the_tables(tmp_path: Path) -> None:
    rows = nested(tmp_path)
    asked_for = {"non_negative": True, "publish": {"records": True}}
    tables = rows.dp.tables(**CONSISTENT, consistent=asked_for, rho=90)
    assert list(tables) == ["total", "sex", "state", "state_sex", "town", "town_sex"]
    assert tables.records is not None
    assert list(tables.records.columns) == ["town", "sex"]
    counted = tables.records.groupby(["town", "sex"], observed=True).size()
    whole = tables["town_sex"]["count"]
    assert counted.to_dict() == whole[whole > 0].to_dict()
    assert rows.dp.tables(**CONSISTENT, consistent=True, rho=1).records is None


@pytest.mark.parametrize("mechanism", ["discrete_laplace", "discrete_gaussian", "gaussian"])
@pytest.mark.parametrize("consistent", [True, {"targets": [{"table": ["sex"], "weight": 1000}]}])
def test_rho_of_the_noise_is_charged(consistent: Any, mechanism: str, tmp_path: Path) -> None:
    """Optimised shares have another rho at the same epsilon and delta."""
    rows = nested(tmp_path)
    named = {**CONSISTENT, "mechanism": mechanism}
    with mock.patch.object(execute, "answer_family", wraps=execute.answer_family) as drawn:
        rows.dp.tables(**named, consistent=consistent, epsilon=0.5, delta=1e-6)
    spent = rows.dp.session.spent.rho
    assert spent == Fraction(
        rho_of([column.accounting_input for column in drawn.call_args.args[1]])
    )
    told = rows.dp.explain("tables", **named, consistent=consistent, epsilon=0.5, delta=1e-6)
    assert told.attrs["dprelease_answer"]["price"] == str(Spending(rho=spent))


def test_impossible_consistent_tables_spend_nothing(tmp_path: Path) -> None:
    rows = nested(tmp_path)
    for given, code in (
        ({"consistent": True, "columns": {"m": {"median": "pay"}}}, "DP-"),
        ({"consistent": {"invariants": [{"table": []}]}}, "DP-CONSIST-007"),
        ({"consistent": True, "mechanism": "symmetric_alpha_stable"}, "DP-"),
        ({"consistent": False}, "DP-RELEASE-008"),
    ):
        with pytest.raises(DpReleaseError, match=code):
            rows.dp.tables(**{**CONSISTENT, **given}, rho=1)
    assert rows.dp.session.spent == Spending(rho=Fraction(0))
    assert len(rows.dp.explain("tables", **CONSISTENT, consistent=True, rho=1)) == 6


REFUSED: dict[str, tuple[dict[str, Any], type[DpReleaseError], str]] = {
    "two ways": ({"cube": ["state"], "rollup": ["sex"]}, DpReleaseError, "DP-RELEASE-008"),
    "a name for lists": ({"marginals": ["state"]}, UsageError, "DP-SESSION-016"),
    "a text for a list": ({"cube": "state"}, UsageError, "DP-SESSION-016"),
    "no mapping": ({"columns": ["count"]}, UsageError, "DP-SESSION-016"),
    "no aggregate": ({"columns": {"n": "count"}}, UsageError, "DP-SESSION-016"),
    "keys that are unknown": ({"cube": ["nothing"]}, QueryError, "DP-QUERY-001"),
    "keys that are not public": ({"cube": ["job"]}, QueryError, "DP-QUERY-002"),
    "keys of the terms": ({"cube": ["state"], "by": "sex"}, UsageError, "DP-SESSION-012"),
    "private keys": (
        {"marginals": [["job"]], "private_keys": True},
        DpReleaseError,
        "DP-BUDGET-011",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_tables_spend_nothing(case: str) -> None:
    given, kind, code = REFUSED[case]
    rows = registered_frame()
    with pytest.raises(kind, match=code):
        rows.dp.tables(**given, epsilon=1)
    assert rows.dp.session.spent.epsilon == 0


def test_representation_of_tables() -> None:
    tables = registered_frame().dp.tables(rollup=["state"], epsilon=1)
    assert repr(tables).startswith("<2 tables")
    assert "total  1     count" in repr(tables)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("consistent", [False, True])
def test_tables_use_the_neighbours_of_their_session(
    consistent: bool, neighbours: str, tmp_path: Path
) -> None:
    """Sensitivities follow the session's neighbours, whatever unit the ledger uses."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(
        Account("office/people", neighbours, "each row", None, Fraction(0), Fraction(1))
    )
    rows = frame()
    session = dprelease.Session(
        {**SCHEMA, "owner": "office"},
        rho=1,
        delta="1e-9",
        neighbours=neighbours,
        ledger=ledger.path,
    )
    rows.dp.use(session)
    with mock.patch.object(execute, "answer_family", wraps=execute.answer_family) as drawn:
        told = rows.dp.tables(cube=["state", "sex"], consistent=consistent, rho="0.1")
    moved = {max(m.cells for m in c.measurement.sensitivity.moves) for c in drawn.call_args.args[1]}
    assert moved == {1} if neighbours == "add_remove" else max(moved) == 2
    assert told.attrs["dprelease_answer"]["guarantee"]["neighbours"] == neighbours
    charged = ledger.state().spent("office/people")
    assert 0.099 < charged <= session.spent.rho == Fraction("0.1")


def test_numpy_scalars_are_accepted(tmp_path: Path) -> None:
    """Also within lists and mappings."""
    rows = nested(tmp_path)
    given = {
        "consistent": {
            "non_negative": np.bool_(True),
            "targets": [{"table": ["sex"], "weight": np.int64(3)}],
        },
    }
    for consistent in (np.bool_(True), given["consistent"]):
        tables = rows.dp.tables(**CONSISTENT, consistent=consistent, rho=np.float32(0.1))
        assert tables.estimates
    assert rows.dp.session.spent.rho == Fraction("0.2")
    with pytest.raises(DpReleaseError, match="DP-RELEASE-008"):
        rows.dp.tables(**CONSISTENT, consistent=np.bool_(False), rho=1)
    asked_ = {"epsilon": np.float64(0.1), "delta": np.float32(1e-6), "confidence": np.float32(0.9)}
    shown = rows.dp.count(by="sex", private_keys=np.bool_(False), **asked_)
    assert len(shown) == 2
    flat = rows.dp.groupby("sex", as_index=np.bool_(False)).size(**asked_)
    assert "sex" in flat.columns
    cut = rows.dp.derive(band={"cut": "pay", "edges": [np.int64(0), np.float32(0.5), np.int8(9)]})
    assert len(cut.count(by="band", rho=np.int64(1))) == 2
