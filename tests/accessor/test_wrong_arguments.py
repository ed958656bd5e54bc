"""Wrong arguments of public functions raise errors of dprelease, never others."""

from __future__ import annotations

import datetime
import decimal
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import yaml

import dprelease
from dprelease.accessor.questions import NAMES
from dprelease.errors import DpReleaseError
from tests.accessor.test_queries import SCHEMA, frame

WRONG: dict[str, Any] = {
    "None": None,
    "NaN": float("nan"),
    "infinite": float("inf"),
    "negative": -1,
    "zero": 0,
    "huge": 10**400,
    "a float": 1.5,
    "a decimal": decimal.Decimal("NaN"),
    "an integer of NumPy": np.int64(5),
    "a NaN of NumPy": np.float32("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "truth": True,
    "a text": "no such thing\n\ud800",
    "an empty text": "",
    "bytes": b"age",
    "a list": [],
    "a list of None": [None],
    "nested": [["age"], {"a": [1]}],
    "a mapping": {},
    "a mapping of anything": {1: object(), None: [None]},
    "a set": {"age"},
    "an object": object(),
    "a class": dict,
    "a function": len,
    "a frame": pd.DataFrame({"age": [4711]}),
    "a series": pd.Series([4711]),
    "a frame of polars": pl.DataFrame({"age": [4711]}),
    "an array": np.array([4711]),
    "a day": datetime.date(2024, 1, 1),
    "complex": 1j,
}
GOOD: dict[str, Any] = {
    "column": "age", "columns": ["age"], "by": "sex", "bins": [0, 50, 100], "q": 0.5, "index": "sex",
    "statement": "SELECT COUNT(*) FROM people", "question": "count", "functions": "mean",
    "aggregates": {"age": "mean"}, "predicate": "age > 1", "epsilon": 0.001,
    "outcome": "age", "predictors": ["pay"], "weight": "age", "replicates": ["pay"], "scale": 1,
}  # fmt: skip
KEYED = {"unique": {"columns": "state"}, "crosstab": {"columns": "state"}, "value_counts": {"column": "state"},
         "mode": {"column": "state"}, "count_distinct": {"column": "state"},
         "nunique": {"column": "state"}, "tables": {"columns": None, "cube": ["sex"]}}  # fmt: skip


def methods() -> Iterator[tuple[str, str]]:
    for name in (*NAMES, "where", "derive", "groupby", "explain", "use"):
        yield "rows", name
    for name in NAMES:
        if name not in ("unique", "crosstab", "tables", "sql", "regression", "design_error"):
            yield "groups", name
            yield "columns", name


def call(function: Any, name: str, value: Any, keyed: dict[str, Any]) -> None:
    """Call a function with one wrong argument; its other arguments are right."""
    parameters = inspect.signature(function).parameters.values()
    needed = {
        one.name: (GOOD | keyed)[one.name]
        for one in parameters
        if one.name in (GOOD | keyed)
        and (one.default is inspect.Parameter.empty or one.name == "epsilon" or one.name in keyed)
    }
    message = ""
    try:
        function(**{**needed, name: value})
    except DpReleaseError as problem:
        message = str(problem)
    assert "4711" not in message


@pytest.fixture(scope="module")
def rows() -> Iterator[Any]:
    session = dprelease.Session(SCHEMA, epsilon=10**6)
    df = frame()
    df.dp.use(session)
    yield df.dp
    assert session is not None


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("kind", "name"), [*methods()])
def test_wrong_arguments_of_accessor_methods(rows: Any, kind: str, name: str) -> None:
    groups = rows.groupby("sex")
    column = KEYED.get(name, {}).get("column", "age")
    function = getattr({"rows": rows, "groups": groups, "columns": groups[column]}[kind], name)
    keyed = KEYED.get(name, {})
    for parameter in [*inspect.signature(function).parameters, "nothing"]:
        for what, value in WRONG.items():
            try:
                call(function, parameter, value, keyed)
            except Exception as problem:
                raise AssertionError(f"{kind}.{name}({parameter}={what})") from problem


ADVICE: dict[str, tuple[Any, str]] = {
    "a function": (lambda dp: dp.groupby("sex").agg({"age": lambda x: x}), "such as 'mean'"),
    "an option of sums": (
        lambda dp: dp.agg({"age": "sum"}, max_sum=9, epsilon=1),
        r"sum\(\.\.\.\)",
    ),
    "no aggregate": (lambda dp: dp.groupby("sex").agg({}, epsilon=1), r'agg\(\{"income"'),
    "no quantile": (lambda dp: dp.quantile("age", [], epsilon=1), "from 0 to 1"),
    "a percentage": (lambda dp: dp.groupby("sex")["age"].quantile(50, epsilon=1), "from 0 to 1"),
    "an attribute": (lambda dp: dp.groupby("sex").age, r"groupby\('state'\)\['age'\]"),
    "an attribute of rows": (lambda dp: dp.age, r"mean\('age', epsilon=0.1\)"),
    "two columns": (lambda dp: dp.value_counts(["sex", "state"], epsilon=1), r"by=\['state'\]"),
    "two keys": (lambda dp: dp.crosstab(["sex"], "state", epsilon=1), r"count\(by=\[...\]\)"),
    "margins": (lambda dp: dp.crosstab("sex", "state", margins=True), "did you mean 'totals'"),
    "where": (lambda dp: dp.mean("age", where="age > 3", epsilon=1), r"df\.dp\.where"),
    "a derived text": (lambda dp: dp.derive(old="age > 80"), '"expression": "age >= 18"'),
    "a confidence": (lambda dp: dp.mean("age", epsilon=1, confidence=95), "confidence=0.95"),
    "isin": (lambda dp: dp.where("sex.isin(['F'])").count(epsilon=1), r"sex IN \('F'\)"),
    "str": (lambda dp: dp.where("job.str.endswith('A')").count(epsilon=1), "job LIKE '%A'"),
    "dt": (lambda dp: dp.where("job.dt.year = 1").count(epsilon=1), r"year\(job\)"),
    "a chain": (lambda dp: dp.where("1 < age < 9").count(epsilon=1), "1 < age AND age < 9"),
    "two quotes": (lambda dp: dp.where('sex in ["F"]').count(epsilon=1), "single quotes"),
}


@pytest.mark.parametrize("what", ADVICE)
def test_refusals_suggest_the_correct_call(rows: Any, what: str) -> None:
    call, advice = ADVICE[what]
    with pytest.raises(DpReleaseError, match=f"(?s){advice}.*no budget was spent"):
        call(rows)


FUNCTIONS = {
    name: getattr(dprelease, name) for name in ("Session", "answer_details", "dp", "labelled")
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_of_functions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(yaml.safe_dump(SCHEMA))
    function = FUNCTIONS[name]
    keyed = {"schema": "people.yaml", "epsilon": 1}
    for parameter in [*inspect.signature(function).parameters, "nothing"]:
        if parameter == "state":
            continue
        for what, value in WRONG.items():
            try:
                call(function, parameter, value, keyed)
            except Exception as problem:
                raise AssertionError(f"{name}({parameter}={what})") from problem
