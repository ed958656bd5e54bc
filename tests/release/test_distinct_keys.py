"""SELECT DISTINCT and `unique`: declared values at no cost, or private keys alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError, QueryError, RunState, UsageError
from dprelease.ledger.ledger import Ledger
from tests.ledger.test_ledger import TABLE, release_with_ledger

CITIES = ["Bern", "Oslo", "Rome"]
PRIVATE: dict[str, Any] = {"epsilon": 20, "delta": 1e-6, "private_keys": True}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    release_with_ledger(tmp_path)
    return tmp_path


@pytest.fixture
def frame(folder: Path) -> Iterator[pd.DataFrame]:
    rows = [(i, CITIES[i % 2], 20 + i % 3 * 10, 1.5) for i in range(3000)]
    found = pd.DataFrame(rows, columns=["person", "city", "age", "pay"])
    session = dprelease.Session(folder / "people.yaml", epsilon=90, delta=1e-3)
    found.dp.use(session)
    yield found
    assert session.spent.delta < 1  # it lives as long as the frame


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT DISTINCT city FROM people ORDER BY city",
        "SELECT city FROM people GROUP BY city ORDER BY city",
        "SELECT DISTINCT left(city, 4) AS city FROM people ORDER BY 1",
    ],
)
def test_declared_values_cost_nothing(folder: Path, statement: str) -> None:
    """No row is read: the source is not there."""
    (folder / "people.csv").unlink()
    ledger, state = Ledger(folder / "ledger.sqlite"), RunState()
    schema = folder / "people.yaml"
    found = dprelease.sql(statement, schema, epsilon=1, ledger=ledger.path, state=state)
    assert found["city"].tolist() == CITIES
    assert not state.rows
    assert float(ledger.state().spent(TABLE)) == 0
    noted = found.attrs["dprelease"]
    assert noted["guarantee"] == {"epsilon": "0", "delta": "0"}
    assert len(noted["declared_keys"]) == 1
    plan = dprelease.sql(f"EXPLAIN {statement}", schema, epsilon=1)
    assert len(plan) == 1


def test_distinct_combinations_of_declared_keys(folder: Path) -> None:
    statement = "SELECT DISTINCT city, age // 50 AS half FROM people ORDER BY ALL LIMIT 4 OFFSET 1"
    found = dprelease.sql(statement, folder / "people.yaml", epsilon=1)
    expected = list(itertools.product(CITIES, (0, 1, 2)))[1:5]
    assert list(found.itertuples(index=False, name=None)) == expected


def test_private_keys_are_found_in_the_data(folder: Path, frame: pd.DataFrame) -> None:
    statement = "SELECT DISTINCT city FROM people WHERE age < 100 ORDER BY city"
    schema, out = folder / "people.yaml", folder / "keys"
    found = dprelease.sql(statement, schema, **PRIVATE, frames={"people": frame}, output=out)
    assert found["city"].tolist() == CITIES[:2]
    assert float(found.attrs["dprelease"]["guarantee"]["epsilon"]) > 0
    assert dprelease.verify(out).ok
    assert frame.dp.sql(statement, **PRIVATE)["city"].tolist() == CITIES[:2]
    assert frame.dp.session.spent.epsilon == 20


def test_unique_of_frames(frame: pd.DataFrame) -> None:
    dp = frame.dp
    assert dp.unique("city")["city"].tolist() == CITIES
    assert len(dp.unique(["city", "age"])) > 3
    assert dp.session.spent.epsilon == 0
    assert dp.explain("unique", "city")["column"].tolist() == ["city"]
    found = dp.where("age >= 30").unique(["city", "age"], **PRIVATE)
    assert sorted(set(found["age"])) == [30, 40]
    assert found.attrs["dprelease_answer"]["guarantee"]["epsilon"]
    assert dp.session.spent.epsilon == 20
    assert len(dp.explain("unique", "city", **PRIVATE)) == 1


def test_noisy_tables_next_to_declared_values(folder: Path, frame: pd.DataFrame) -> None:
    statement = "SELECT city FROM people GROUP BY city ORDER BY (SELECT COUNT(*) FROM people), city"
    schema = folder / "people.yaml"
    found = dprelease.sql(statement, schema, epsilon=1, frames={"people": frame})
    assert found["city"].tolist() == CITIES
    assert found.attrs["dprelease"]["declared_keys"] == ["city"]
    assert float(found.attrs["dprelease"]["guarantee"]["epsilon"]) > 0
    assert frame.dp.sql(statement, epsilon=2)["city"].tolist() == CITIES
    assert frame.dp.session.spent.epsilon == 2


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("SELECT DISTINCT city FROM people WHERE age > 3", "DP-SQL-006", "do not depend on rows"),
        ("SELECT DISTINCT pay FROM people", "DP-QUERY-002", "pay"),
        ("SELECT DISTINCT person FROM people", "DP-QUERY-002", "person"),
        ("SELECT DISTINCT * FROM people", "DP-SQL-005", "never released"),
        ("SELECT DISTINCT 1 FROM people", "DP-SQL-005", "never released"),
        ("SELECT DISTINCT ON (city) city FROM people", "DP-SQL-005", "never released"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT city FROM people)", "DP-SQL-006", "other people"),
        ("SELECT list(DISTINCT city) FROM people", "DP-SQL-006", "SELECT DISTINCT city"),
        ("SELECT list(age) FROM people", "DP-SQL-006", "SELECT DISTINCT age"),
        ("SELECT array_agg(age ORDER BY age) FROM people", "DP-SQL-006", "single rows"),
        ("SELECT string_agg(city, ', ' ORDER BY age) FROM people", "DP-SQL-006", "single rows"),
        ("SELECT list(age) FILTER (WHERE age > 3) FROM people", "DP-SQL-006", "single rows"),
    ],
)
def test_impossible_distinct_statements_are_refused(
    folder: Path, frame: pd.DataFrame, statement: str, code: str, words: str
) -> None:
    for ask in (
        lambda: dprelease.sql(statement, folder / "people.yaml", epsilon=1),
        lambda: frame.dp.sql(statement, epsilon=1),
    ):
        with pytest.raises(QueryError, match=rf"(?s){code}.*{words}") as error:
            ask()
        assert "no budget was spent" in str(error.value)
    assert frame.dp.session.spent.epsilon == 0


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda dp: dp.where("age > 3").unique("city"), QueryError),
        (lambda dp: dp.unique("pay"), QueryError),
        (lambda dp: dp.unique("nothing"), QueryError),
        (lambda dp: dp.unique([]), UsageError),
        (lambda dp: dp.unique(None), UsageError),
        (lambda dp: dp.unique("city", private_keys=3), UsageError),
        (lambda dp: dp.unique("city", private_keys=True), UsageError),
    ],
)
def test_unique_with_wrong_keys_is_refused(
    frame: pd.DataFrame, ask: Callable[[Any], object], kind: type[DpReleaseError]
) -> None:
    with pytest.raises(kind):
        ask(frame.dp)
    assert frame.dp.session.spent.epsilon == 0


def test_string_agg_of_published_keys(folder: Path) -> None:
    """Noisy results and published keys may be listed, which is no aggregate of people."""
    statement = (
        "SELECT string_agg(city, '+' ORDER BY city) AS c "
        "FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city)"
    )
    found = dprelease.sql(statement, folder / "people.yaml", epsilon=1)
    assert found["c"].tolist() == ["+".join(CITIES)]


def test_declared_values_alone_are_not_published(folder: Path) -> None:
    statement, schema = "SELECT DISTINCT city FROM people", folder / "people.yaml"
    with pytest.raises(QueryError, match="DP-SQL-006"):
        dprelease.sql(statement, schema, epsilon=1, output=folder / "new")
    assert not (folder / "new").exists()


def test_sql_command_and_shell(folder: Path) -> None:
    schema = ["--schema", str(folder / "people.yaml")]
    statement = "SELECT DISTINCT city FROM people ORDER BY city"
    found = CliRunner().invoke(cli.app, ["sql", statement, *schema, "--epsilon", "1", "--json"])
    answer = json.loads(found.stdout)
    assert [row["city"] for row in answer["rows"]] == CITIES
    assert answer["declared_keys"] == ["city"]
    shown = CliRunner().invoke(cli.app, ["sql", statement, *schema, "--epsilon", "1"])
    assert "declared" in shown.stdout
    shell = CliRunner().invoke(
        cli.app,
        ["sql", *schema, "--epsilon", "1", "--total", "1"],
        input=f"{statement};\nSELECT COUNT(*) AS n FROM people;\n",
    )
    assert shell.exit_code == 0, shell.output
    assert "epsilon 1 of 1 remains" in shell.output
    assert "epsilon 0 of 1 remains" in shell.output
