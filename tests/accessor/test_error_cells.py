"""Errors contain no cells if a column is passed instead of its name."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dprelease
from dprelease.accessor.grouped_columns import SelectedColumns
from dprelease.accessor.groups import GroupBy
from dprelease.accessor.query_options import OPTIONS
from dprelease.accessor.questions import NAMES
from dprelease.errors import UsageError

TABLE = {
    "table": "people",
    "columns": {
        "state": {"type": "category", "values": ["a", "b"]},
        "sex": {"type": "category", "values": ["F", "M"]},
        "age": {"type": "integer", "lower": 0, "upper": 9},
    },
}
CELL, NUMBER = "canary", 777123
FRAME = pd.DataFrame({"state": [CELL] * 3, "sex": [CELL] * 3, "age": [NUMBER] * 3})
CELLS: dict[str, Any] = {
    "a column": FRAME["state"],
    "numbers": FRAME["age"],
    "a condition": FRAME["age"] > 5,
    "an array": FRAME["state"].to_numpy(dtype=object),
    "an index": FRAME.set_index("state").index,
    "a name among cells": np.array(["age", CELL], dtype=object),
    "a categorical column": FRAME["state"].astype("category"),
    "categories": pd.Categorical(FRAME["state"]),
    "a frame": FRAME,
    "groups": FRAME.groupby("state"),
    "arrow": pa.array(FRAME["state"].tolist()),
    "columns": [FRAME["state"], FRAME["sex"]],
    "a named column": {"age": FRAME["age"]},
    "deep": {"age": ["mean", FRAME["age"]]},
}
NEEDED: dict[str, Any] = {
    "column": "age", "columns": "age", "index": "state", "q": 0.5, "bins": [0, 5],
    "statement": "SELECT COUNT(*) AS n FROM people", "functions": "mean", "params": None, "margins": False, "normalize": False, "sort": True,
    "closed": "left", "epsilon": 1, "outcome": "age", "predictors": ["age"], "weight": None, "max_sum": None,
}  # fmt: skip
OWN_NEEDED: dict[str, dict[str, Any]] = {
    "tables": {
        "columns": {"n": {"count": "*"}}, "marginals": None, "marginals_at": None, "cube": ["state"], "rollup": None,
        "hierarchy": None, "consistent": False,
    },
    "design_error": {"weight": "age", "replicates": ["age"], "scale": 1},
}  # fmt: skip
ASKED: dict[str, Callable[[Any], Any]] = {
    "": lambda dp: dp,
    "groups": lambda dp: dp.groupby("state"),
    "one": lambda dp: dp.groupby("state")["age"],
}
KINDS: dict[str, Any] = {"": dprelease.dp(FRAME), "groups": GroupBy, "one": SelectedColumns}


def questions() -> list[tuple[str, str, str]]:
    """Return every question, however it is asked, with each of its arguments."""
    found = []
    for way, kind in KINDS.items():
        for name in sorted(NAMES):
            ask = getattr(kind, name, None)
            if ask is not None and (name != "agg" or way == "one"):
                given = [p for p in inspect.signature(ask).parameters if p != "self"]
                found += [(way, name, argument) for argument in given]
    return found


def assert_refused(ask: Callable[[Any], object], session: dprelease.Session) -> None:
    """Assert that a query is refused, free, and quotes no cell."""
    with pytest.raises(UsageError, match="DP-SESSION-016") as caught:
        ask(FRAME.dp)
    told = "".join(traceback.format_exception(caught.value, chain=True))
    assert CELL not in told
    assert str(NUMBER) not in told
    assert str(session.remaining) == "epsilon 9, delta 0"


@pytest.fixture(scope="module")
def session() -> Any:
    made = dprelease.Session(TABLE, epsilon=9)
    FRAME.dp.use(made)
    return made


@pytest.mark.share(0.3, by="name")
@pytest.mark.parametrize(("way", "name", "argument"), questions())
def test_query_errors_contain_no_cells_of_arguments(
    way: str, name: str, argument: str, session: Any
) -> None:
    ask = inspect.signature(getattr(ASKED[way](FRAME.dp), name))
    has_default = {n for n, p in ask.parameters.items() if p.default is not p.empty}
    own = [p for p in ask.parameters if p not in OPTIONS and p not in has_default]
    needed = NEEDED | OWN_NEEDED.get(name, {})
    for kind, cells in CELLS.items():
        if argument in ("q", "bins") and kind == "numbers":
            continue  # edges and levels may be an array
        given = {p: needed[p] for p in [*own, "epsilon"]} | {argument: cells}
        assert_refused(lambda dp, given=given: getattr(ASKED[way](dp), name)(**given), session)


CHOSEN: dict[str, Callable[[Any, Any], object]] = {
    "groupby": lambda dp, cells: dp.groupby(cells),
    "select": lambda dp, cells: dp.groupby("state")[cells],
    "agg of rows": lambda dp, cells: dp.agg(cells, epsilon=1),
    "agg of rows by name": lambda dp, cells: dp.agg(x=("age", cells), epsilon=1),
    "agg": lambda dp, cells: dp.groupby("state").agg(cells, epsilon=1),
    "agg of a column": lambda dp, cells: dp.groupby("state").agg({"age": cells}, epsilon=1),
    "agg by name": lambda dp, cells: dp.groupby("state").agg(x=("age", cells), epsilon=1),
    "derive": lambda dp, cells: dp.derive(x=cells),
    "derive by": lambda dp, cells: dp.derive(x={"expression": cells, "type": "boolean"}),
    "where": lambda dp, cells: dp.where(cells),
    "explain": lambda dp, cells: dp.explain(cells, epsilon=1),
    "explain by": lambda dp, cells: dp.explain("count", by=cells, epsilon=1),
    "positional": lambda dp, cells: dp.mean(cells, epsilon=1),
}


@pytest.mark.each
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("how", CHOSEN)
def test_selection_errors_contain_no_cells(how: str, cells: str, session: Any) -> None:
    assert_refused(lambda dp: CHOSEN[how](dp, CELLS[cells]), session)


def test_arguments_may_be_pandas_lists() -> None:
    made = dprelease.Session(TABLE, epsilon=9)
    frame = pd.DataFrame(FRAME.to_dict("list"))
    frame.dp.use(made)
    found = frame.dp.count(by=frame.columns[:2], epsilon=np.float64(0.5))
    assert list(found.columns) == ["state", "sex", "value", "moe", "quality"]
    assert len(frame.dp.describe(frame.columns[2:], epsilon=1).columns) == 1
    assert len(frame.dp.histogram("age", bins=np.arange(0, 10, 3), epsilon=1)) == 3
    assert len(frame.dp.quantile("age", np.array([0.1, 0.9]), epsilon=1).columns) == 8
    named = pd.NamedAgg(column="age", aggfunc="mean")
    assert list(frame.dp.groupby("state").agg(x=named, epsilon=1).columns) == ["x"]


OTHER_KINDS: dict[str, Callable[[pd.DataFrame], object]] = {
    "schema": lambda df: dprelease.Session(df, epsilon=1),  # type: ignore[arg-type]
    "as_index": lambda df: df.dp.groupby("state", as_index=df.state),
    "columns": lambda df: df.dp.describe(3, epsilon=1),
    "columns in a list": lambda df: df.dp.describe([["age"]], epsilon=1),
    "by": lambda df: df.dp.groupby(3),
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_wrong_types_raise_type_errors_without_cells(name: str) -> None:
    frame = pd.DataFrame({"state": ["secret"]})
    with pytest.raises(TypeError, match=f"DP-SESSION-016.*{name.split()[0]}") as caught:
        OTHER_KINDS[name](frame)
    assert "secret" not in str(caught.value)
