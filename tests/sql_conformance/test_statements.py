"""Each listed statement is answered like DuckDB on the exact data, or refused with its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import yaml

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.errors.error_tree import Findings
from dprelease.query.outer_sql.null_safe import SETTINGS
from tests.sql_conformance.tables import frames, write_tables

pytestmark = pytest.mark.usefixtures("replayed_noise")

STATEMENTS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "statements.yaml").read_text(encoding="utf-8")
)
EPSILON = 100
"""The largest budget: counts have no noise, except with a probability below 1e-9."""


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def exact() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as link:
        for setting in SETTINGS:  # a quotient by zero is NULL
            link.execute(setting)
        for name, frame in frames().items():
            link.register(name, frame)
        yield link


def plain(frame: pd.DataFrame) -> list[list[object]]:
    """Return the cells; numbers as floats, days and times as texts, and missing values as None."""
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: object) -> object:
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "isoformat"):
        return str(value)[:10]
    return pytest.approx(float(value), rel=0.01, abs=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", STATEMENTS, ids=lambda case: case["sql"][:60])
def test_statement(
    case: dict[str, Any], schemas: list[Path], exact: duckdb.DuckDBPyConnection
) -> None:
    def ask() -> pd.DataFrame:
        return dprelease.sql(case["sql"], schemas, epsilon=EPSILON, mechanism="discrete_laplace")

    if case["expect"] == "answered":
        assert plain(ask()) == plain(exact.execute(case["sql"]).df())
        return
    with pytest.raises(DpReleaseError) as caught:
        ask()
    error = caught.value.errors[0] if isinstance(caught.value, Findings) else caught.value
    assert error.code == case["code"]
    assert "no budget was spent" in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "state NOT IN (SELECT code FROM states WHERE code = 'VT')",
        "sex = 'F' OR state NOT IN (SELECT flag FROM flags)",
        "NOT (state NOT IN (SELECT code FROM states WHERE code = 'VT'))",
    ],
)
def test_missing_value_is_never_another_one_than_undeclared_values(
    condition: str, tmp_path: Path
) -> None:
    schemas, rows = write_tables(tmp_path), frames()
    people = rows["people"]
    people["state"] = people["state"].where(people["age"] > 40, None)
    people.to_csv(tmp_path / "people.csv", index=False)
    text = f"SELECT COUNT(*) AS n FROM people WHERE {condition}"
    with duckdb.connect() as link:
        for name, frame in rows.items():
            link.register(name, frame)
        expected = link.execute(text).df()
    assert plain(dprelease.sql(text, schemas, epsilon=EPSILON)) == plain(expected)


def test_statements_are_listed_once() -> None:
    assert len({case["sql"] for case in STATEMENTS}) == len(STATEMENTS)
