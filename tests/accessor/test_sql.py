"""`df.dp.sql`: one statement over the registered rows, charged once to the session."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dprelease
from dprelease.errors import BudgetError, QueryError
from dprelease.ledger.ledger import Ledger
from tests.ledger.test_ledger import TABLE, release_with_ledger

STATEMENT = "SELECT city, AVG(age) AS age, COUNT(*) AS n FROM people GROUP BY city ORDER BY city"


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    release_with_ledger(tmp_path)
    rows = [(i, ("Bern", "Oslo", "Rome")[i % 3], 20 + i % 3 * 10, 1.5) for i in range(3000)]
    return pd.DataFrame(rows, columns=["person", "city", "age", "pay"])


def test_statements_are_answered_and_charged(frame: pd.DataFrame, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    session = dprelease.Session(tmp_path / "people.yaml", epsilon=90, ledger=None)
    frame.dp.use(session)
    found = frame.dp.sql(STATEMENT, epsilon=20)
    assert list(found.columns) == ["city", "age", "n"]
    assert found["city"].tolist() == ["Bern", "Oslo", "Rome"]
    assert found["n"].to_numpy() == pytest.approx([1000] * 3, abs=30)
    assert found["age"].to_numpy() == pytest.approx([20, 30, 40], abs=3)
    assert session.spent.epsilon == 20
    assert found.attrs["dprelease_answer"]["guarantee"]["epsilon"]
    older = frame.dp.where("age >= 30").sql(STATEMENT, epsilon=20)
    assert older["n"].to_numpy() == pytest.approx([0, 1000, 1000], abs=30)
    ratio = "SELECT city, SUM(age) / COUNT(*) AS mean FROM people GROUP BY city ORDER BY city"
    means = frame.dp.sql(ratio, epsilon=20, margins=True)
    assert list(means.columns) == ["city", "mean", "mean_lower", "mean_upper"]
    assert means["mean_lower"].between([17, 27, 37], [23, 33, 43]).all()
    other = "SELECT SUM(age) / COUNT(*) AS a, AVG(age) AS b FROM people"
    wide, narrow = (
        frame.dp.sql(other, epsilon=1, margins=True, confidence=confidence)
        for confidence in (0.99, 0.6)
    )
    for name in "ab":
        sizes = [(found[f"{name}_upper"] - found[f"{name}_lower"])[0] for found in (wide, narrow)]
        assert sizes[0] > 1.5 * sizes[1]
    assert not ledger.exists() or Ledger(ledger).state().spent(TABLE) == 0


def test_conditions_on_the_cell_of_undeclared_codes_are_refused() -> None:
    column = {"type": "category", "values": ["a", "other"], "others": "other"}
    frame = pd.DataFrame({"g": ["a"] * 5 + ["x", "y"] * 5})
    session = dprelease.Session({"table": "t", "columns": {"g": column}}, epsilon=200)
    frame.dp.use(session)
    for where in ("g = 'other'", "g NOT IN ('a', 'other')"):
        with pytest.raises(QueryError, match="DP-WHERE-006"):
            frame.dp.where(where).count(epsilon=1)
        with pytest.raises(QueryError, match="DP-WHERE-006"):
            frame.dp.sql(f"SELECT COUNT(*) AS n FROM t WHERE {where}", epsilon=1)
    assert session.spent.epsilon == 0
    assert frame.dp.where("g NOT IN ('a')").count(epsilon=100)["value"].tolist() == [10]


LANDS = pd.DataFrame(
    {"town": ["Bern", "Oslo", "Rome"], "land": ["CH", "NO", "IT"], "size": [1, 2, 3]}
)
COLUMNS = {
    "town": {"type": "text"},
    "land": {"type": "category", "values": ["CH", "NO", "IT"]},
    "size": {"type": "integer"},
}


def without_note(frame: pd.DataFrame) -> list[Any]:
    """Return frames with rows of people, and the columns of a public table, but without a note."""
    plain = pd.DataFrame(frame.to_dict("list")).assign(town="a", land="CH", size=1)
    renamed = plain.rename(columns={"person": "PERSON"})
    return [plain, renamed, pl.from_pandas(plain), pa.Table.from_pandas(plain)]


def test_public_tables_are_joined_before_or_after_noise(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    """They are joined before the noise and after it, from their source or from a frame."""
    LANDS.to_csv(tmp_path / "lands.csv", index=False)
    table = {"table": "lands", "public": True, "columns": COLUMNS}
    lands = {**table, "source": str(tmp_path / "lands.csv")}
    session = dprelease.Session([tmp_path / "people.yaml", lands], epsilon=400)
    frame.dp.use(session)
    after = (
        "WITH n AS (SELECT city AS town, COUNT(*) AS n FROM people GROUP BY city) "
        "SELECT land, n, size FROM n RIGHT JOIN lands USING (town) ORDER BY land"
    )
    before = "SELECT land, COUNT(*) AS n FROM people JOIN lands ON city = town GROUP BY land"
    plan = frame.dp.sql(f"EXPLAIN {after}", epsilon=20)
    assert "lands" in plan.index.get_level_values("table")
    found = frame.dp.sql(after, epsilon=20)
    assert found["size"].tolist() == [1, 3, 2]
    assert found["n"].to_numpy() == pytest.approx([1000] * 3, abs=30)
    assert found.attrs["dprelease_answer"]["public_tables"] == ["lands"]
    older = frame.dp.where("age >= 30").sql(before, epsilon=20).set_index("land")["n"]
    assert older[["CH", "NO", "IT"]].to_numpy() == pytest.approx([0, 1000, 1000], abs=30)
    two = {"lands": LANDS.head(2)}
    assert frame.dp.sql(after, epsilon=20, frames=two)["size"].tolist() == [1, 2]
    one = frame.dp.sql(before, epsilon=20, frames=two).set_index("land")["n"]
    assert one[["CH", "NO", "IT"]].to_numpy() == pytest.approx([1000, 1000, 0], abs=30)
    spent = session.spent
    for frames, code in (
        ({"lands": frame}, "DP-JOIN-003"),
        ({"lands": frame[frame["age"] > 20]}, "DP-JOIN-003"),
        *(({"lands": rows}, "DP-JOIN-003") for rows in without_note(frame)),
        ({"people": LANDS}, "DP-DATA-016"),
        ({"land": LANDS}, "DP-DATA-016"),
    ):
        with pytest.raises(dprelease.DpReleaseError, match=f"{code}(?s:.*)no budget was spent"):
            frame.dp.sql(after, epsilon=20, frames=frames)
    assert session.spent == spent


@pytest.mark.parametrize("ask", ["count", "sql", "dprelease.sql"])
def test_charge_precedes_the_noise(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    """The charge is final before noise is drawn: a kill afterwards saves no budget."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    schema = tmp_path / "people.yaml"
    session = dprelease.Session(schema, epsilon=2, ledger=ledger.path)
    frame.dp.use(session)
    steps: list[list[str]] = []

    def looked(*_: object) -> None:
        steps.extend(r.steps for r in ledger.state().reservations.values())
        raise KeyboardInterrupt

    monkeypatch.setattr("dprelease.release.execute.answer_query", looked)
    options = {"epsilon": "0.5", "ledger": ledger.path, "frames": {"people": frame}}
    asked = {
        "count": lambda: frame.dp.count(epsilon="0.5"),
        "sql": lambda: frame.dp.sql(STATEMENT, epsilon="0.5"),
        "dprelease.sql": lambda: dprelease.sql(STATEMENT, schema, **options),
    }
    with pytest.raises(KeyboardInterrupt):
        asked[ask]()
    assert steps == [["read"]]


def test_statements_are_charged_or_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    session = dprelease.Session(tmp_path / "people.yaml", epsilon=2, ledger=ledger)
    frame.dp.use(session)
    frame.dp.sql(STATEMENT, epsilon="0.5")
    assert float(Ledger(ledger).state().spent(TABLE)) == pytest.approx(0.5, rel=1e-3)
    for statement, code in (
        ("SELECT STRING_AGG(city) FROM people", "DP-SQL-006"),
        ("SELECT COUNT(*) FROM trips", "DP-SQL-003"),
        ("SELECT pay, COUNT(*) FROM people GROUP BY pay", "DP-QUERY-002"),
    ):
        with pytest.raises(QueryError, match=code):
            frame.dp.sql(statement, epsilon="0.1")
    with pytest.raises(BudgetError, match="DP-BUDGET-091"):
        frame.dp.sql(STATEMENT, epsilon="0.6")
    assert session.spent.epsilon == Fraction("0.5")
    allowed = {"name": "auto", "allowed": ["laplace"]}
    found = frame.dp.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.1", mechanism=allowed)
    assert found.attrs["dprelease_answer"]["mechanisms"] == {"n": "laplace"}
