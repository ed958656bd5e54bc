"""`groupby` works as in pandas, and is charged like the query with these keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.accessor.frame import DpAccessor
from dprelease.accessor.grouped_columns import SelectedColumns
from dprelease.accessor.groups import GroupBy
from dprelease.accessor.questions import FUNCTIONS, NAMES, QUESTIONS
from dprelease.errors import SessionError, UsageError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.schema.aggregate_keywords import WORDS
from tests.ledger.test_matrix import EPSILON, FRAME, TABLE, schema
from tests.replay import Keyed

PANDAS = {word.pandas: kind for kind, word in WORDS.items() if word.pandas}
"""Questions by pandas' name, if it is another."""
BY_NATURE = {
    "unique": "returns the keys themselves",
    "crosstab": "has two keys of its own",
    "tables": "has keys for each table",
    "sql": "says its own keys",
    "regression": "names an outcome and its predictors",
    "design_error": "names the weights of a survey",
}
OF_SEVERAL = ("cov", "corr")
"""Questions about several columns, whose answers of groups are matrices, as in pandas."""
ARGUMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "count_distinct": ("city", ()),
    "mode": ("city", ()),
    "value_counts": ("city", ()),
    "quantile": ("pay", ([0.25, 0.75],)),
    "histogram": ("age", ([0, 4, 8],)),
}
"""Questions about anything but one column of numbers: column and further arguments."""
GROUPED = [name for name in QUESTIONS if name not in ("agg", *OF_SEVERAL)]
KEYS = {"one key": "sex", "two keys": ["sex", "city2"]}
SEXES = {"sex": {"type": "category", "values": ["F", "M"]}}
KEPT: list[Any] = []
"""A frame holds its session by an id only: somebody has to keep it."""
MORE = {"city2": {"type": "category", "values": ["Rome", "Bern"]}}


@pytest.fixture(autouse=True)
def _end_sessions() -> Iterator[None]:
    """Each session keeps a DuckDB and a folder, which all later engines look at."""
    yield
    KEPT.clear()


def registered_frame(folder: Path, unit: str) -> tuple[pd.DataFrame, Any, Ledger]:
    """Return a frame with a session of many questions, and the ledger that they are charged to."""
    declared = schema(unit)
    declared["columns"] = {**declared["columns"], **SEXES, **MORE}
    named = "person" if unit == "id" else "each row"
    ledger = Ledger(folder / "ledger.sqlite")
    account = Account(TABLE, "add_remove", named, Fraction(1000), Fraction("0.01"), None)
    ledger.open_account(account)
    session = dprelease.Session(declared, epsilon=1000, delta="0.01", ledger=ledger.path)
    sexes = np.array(["F", "M", "X"])[np.arange(len(FRAME)) % 3]
    frame = FRAME.assign(sex=sexes, city2=np.where(FRAME["age"] > 4, "Rome", "Bern"))
    frame.dp.use(session)
    KEPT.append(session)
    return frame, session, ledger


@pytest.mark.share(0.3)
@pytest.mark.parametrize(
    ("keys", "unit"), list(zip(KEYS.values(), ["row", "id"], strict=True)), ids=KEYS
)
@pytest.mark.parametrize("question", GROUPED)
def test_equivalent_queries_have_one_result_and_charge(
    question: str, keys: str | list[str], unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`df.dp.mean("pay", by=...)`, of groups, of a selected column, in a list, and by `agg`."""
    frame, session, ledger = registered_frame(tmp_path, unit)
    column, more = ARGUMENTS.get(question, ("pay", ()))
    has_interval = question in ("median", "quantile")
    monkeypatch.setattr("dprelease.release.execute.Entropy", lambda: Keyed("noise"))
    groups, terms = frame.dp.groupby(keys), {"epsilon": EPSILON}
    ways: dict[str, Callable[[], Any]] = {
        "by": lambda: getattr(frame.dp, question)(column, *more, by=keys, **terms),
        "groups": lambda: getattr(groups, question)(column, *more, **terms),
        "a column": lambda: getattr(groups[column], question)(*more, **terms),
        "flat": lambda: getattr(frame.dp.groupby(keys, as_index=False)[column], question)(
            *more, **terms
        ),
    }
    function = next((name for name, kind in PANDAS.items() if kind == question), question)
    if function != question:
        ways["pandas' name"] = lambda: getattr(groups, function)(column, *more, **terms)
        ways["pandas' name by"] = lambda: getattr(frame.dp, function)(column, by=keys, **terms)
        ways["agg by pandas' name"] = lambda: groups[column].agg(function, **terms)
    if question not in ("value_counts", "histogram"):
        ways["a list"] = lambda: getattr(groups[[column]], question)(*more, **terms)
    if question in FUNCTIONS:
        ways["agg"] = lambda: groups[column].agg(question, **terms)
        ways["agg of a list"] = lambda: groups[column].agg([question], **terms)
        ways["agg of columns"] = lambda: groups.agg({column: question}, **terms)
        ways["agg of rows"] = lambda: frame.dp.agg({column: question}, by=keys, **terms)
        ways["agg of rows by name"] = lambda: frame.dp.agg(x=(column, question), by=keys, **terms)
    if question == "size":  # of no column
        ways["by"] = lambda: frame.dp.size(by=keys, **terms)
        ways["groups"] = lambda: groups.size(**terms)
    found, charges = {}, {}
    for name, ask in ways.items():
        before, known = session.spent.epsilon, ledger.state().spent(TABLE)
        found[name] = ask()
        assert session.spent.epsilon - before == int(EPSILON), name
        charges[name] = ledger.state().spent(TABLE) - known
        told, first = (found[x].attrs["dprelease_answer"]["guarantee"] for x in (name, "by"))
        if has_interval:
            told, first = float(told["epsilon"]), pytest.approx(float(first["epsilon"]))
        assert told == first, name
    # The shapes of groups don't show intervals, so the values have the whole epsilon there. With an
    # interval, each selection is made three times, with a third of its epsilon each. The ledger
    # counts in rho, and selections have epsilon^2 / 2: together a third of one with all of it.
    parts = {name: 3 if has_interval and name in ("by", "pandas' name by") else 1 for name in ways}
    wanted = answers(found["groups"], keys)
    for name, answer in found.items():
        charge = parts[name] * float(charges[name])
        assert charge == pytest.approx(float(charges["groups"]), rel=1e-8), name
        if parts[name] == 1:
            assert answers(answer, keys) == wanted, name


def answers(found: pd.DataFrame | pd.Series, keys: str | list[str]) -> list[str]:
    """Return what was answered without keys, margins and names: by cell, in any shape."""
    by = [keys] if isinstance(keys, str) else keys
    table = found.reset_index() if not isinstance(found.index, pd.RangeIndex) else found
    if isinstance(table, pd.Series):
        table = table.to_frame()
    table = table.copy()
    table.columns = [
        "/".join(filter(None, map(str, c))) if isinstance(c, tuple) else str(c)
        for c in table.columns
    ]
    if "q" in table.columns:  # below each other; else beside
        table = table.drop(columns=["q"])
    companions = ("moe", "lower", "upper", "quality")
    kept = [c for c in table.columns if c not in by and not c.endswith(companions)]
    cells = [
        f"{[*map(str, row[by])]} {value}"
        for _, row in table.iterrows()
        for value in map(str, row[kept])
    ]
    return sorted(cells)


@pytest.mark.parametrize("kind", [DpAccessor, GroupBy, SelectedColumns])
def test_frames_groups_and_columns_have_all_queries(kind: type) -> None:
    assert {*NAMES} == {*QUESTIONS, *PANDAS, *BY_NATURE}
    missing = {name for name in NAMES if not hasattr(kind, name)}
    assert missing == (set() if kind is DpAccessor else set(BY_NATURE))


@pytest.mark.parametrize("question", QUESTIONS)
def test_queries_have_the_same_parameters_everywhere(question: str) -> None:
    """Except for columns, and for keys, which groups already have."""
    found = []
    for kind in (DpAccessor, GroupBy, SelectedColumns):
        parameters = inspect.signature(getattr(kind, question)).parameters.values()
        own = {str(p) for p in parameters if p.name not in ("self", "by", "column", "columns")}
        found.append(own)
    assert found[0] == found[1]
    assert found[1] == found[2] or question == "agg"


def test_agg_of_rows_has_one_row_for_each_cell(tmp_path: Path) -> None:
    """Keys, then results, named as for groups; one row without keys."""
    frame, session, _ = registered_frame(tmp_path, "row")
    whole = frame.dp.agg({"pay": ["sum", "std"], "age": "nunique"}, epsilon=90)
    assert list(whole.columns) == [("pay", "sum"), ("pay", "std"), ("age", "nunique")]
    assert len(whole) == 1
    named = frame.dp.agg(total=("pay", "sum"), n=("*", "size"), by="sex", margins=True, epsilon=90)
    assert list(named.columns) == [
        "sex", "total", "total_moe", "total_quality", "n", "n_moe", "n_quality",
    ]  # fmt: skip
    flat = frame.dp.groupby("sex", as_index=False)
    assert list(flat.agg({"pay": "sum"}, epsilon=1)) == list(
        frame.dp.agg({"pay": "sum"}, by="sex", epsilon=1)
    )
    spent = session.spent
    plan = frame.dp.explain("agg", {"pay": ["sum", "count"]}, by="sex", epsilon=1)
    assert len(plan) == 2
    assert session.spent == spent


SHAPES: dict[str, Callable[[Any], Any]] = {
    "a column": lambda g: g["pay"].mean(),
    "a list of one": lambda g: g[["pay"]].mean(),
    "a list": lambda g: g[["pay", "age"]].sum(),
    "functions": lambda g: g["pay"].agg(["mean", "min"]),
    "functions of columns": lambda g: g[["pay", "age"]].agg(["mean", "min"]),
    "a function": lambda g: g["pay"].agg("median"),
    "a function of columns": lambda g: g[["pay", "age"]].agg("max"),
    "a quantile": lambda g: g["pay"].quantile(0.25),
    "quantiles": lambda g: g["pay"].quantile([0.25, 0.75]),
    "quantiles of columns": lambda g: g[["pay", "age"]].quantile([0.25, 0.75]),
    "values": lambda g: g["city"].nunique(),
    "description": lambda g: g["pay"].describe(),
    "descriptions": lambda g: g[["pay", "age"]].describe(),
    "spread": lambda g: g["pay"].std(),
    "present": lambda g: g[["pay", "age"]].count(),
    "rows": lambda g: g["pay"].size(),
}


class PaidGroups:
    """Groups that add a budget to each query."""

    def __init__(self, groups: Any) -> None:
        self.groups = groups

    def __getitem__(self, columns: Any) -> PaidGroups:
        return PaidGroups(self.groups[columns])

    def __getattr__(self, name: str) -> Any:
        return lambda *given: getattr(self.groups, name)(*given, epsilon=90)


@pytest.mark.share(0.3)
@pytest.mark.parametrize(
    ("shape", "keys", "as_index"),
    [
        (shape, keys, as_index)
        for shape in SHAPES
        for keys, as_index in zip(KEYS.values(), (True, False), strict=True)
        # pandas leaves out which quantile is which, where it is not in the index
        if as_index or not shape.startswith("quantiles")
    ],
)
def test_results_have_the_shapes_of_pandas(
    shape: str, keys: str | list[str], as_index: bool, tmp_path: Path
) -> None:
    """Type, names, index and columns if all groups have rows; values approximately."""
    frame, _, _ = registered_frame(tmp_path, "row")
    known = frame[frame["sex"] != "X"]
    plain = known.groupby(keys, as_index=as_index)
    wanted = SHAPES[shape](plain)
    found = SHAPES[shape](PaidGroups(frame.dp.groupby(keys, as_index=as_index)))
    assert type(found) is type(wanted)
    assert list(found.index.names)[: len(wanted.index.names) - 1] == list(wanted.index.names)[:-1]
    assert sorted(map(str, found.index)) == sorted(map(str, wanted.index))
    if isinstance(wanted, pd.Series):
        assert found.name == wanted.name
    else:
        assert list(found.columns) == list(wanted.columns)
    assert found.attrs["dprelease_answer"]["guarantee"]


WRONG: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a number": ("DP-SESSION-016", lambda g: g[3]),
    "no column": ("DP-SESSION-016", lambda g: g[[]]),
    "numbers": ("DP-SESSION-016", lambda g: g.mean([3], epsilon=1)),
    "a column that there is not": ("DP-SESSION-009", lambda g: g["nothing"].mean(epsilon=1)),
    "a column twice": ("DP-SESSION-017", lambda g: g[["pay", "pay"]].mean(epsilon=1)),
    "quantiles of one twice": ("DP-SESSION-017", lambda g: g[["pay"] * 2].quantile(epsilon=1)),
    "a function twice": ("DP-SESSION-017", lambda g: g["pay"].agg(["sum", "sum"], epsilon=1)),
    "a function that there is not": ("DP-SESSION-023", lambda g: g["pay"].agg("skew", epsilon=1)),
    "a mapping": ("DP-SESSION-016", lambda g: g["pay"].agg({"pay": "sum"}, epsilon=1)),
    "no function": ("DP-SESSION-016", lambda g: g["pay"].agg([], epsilon=1)),
    "two keys of a question": ("DP-SESSION-012", lambda g: g["pay"].mean(by="city", epsilon=1)),
    "of a question of rows": (
        "DP-SESSION-012",
        lambda g: g.value_counts("city", by="x", epsilon=1),
    ),
    "a term that there is not": ("DP-SESSION-012", lambda g: g.mean("pay", epsilom=1)),
    "no price": ("DP-SESSION-015", lambda g: g["pay"].mean()),
    "values of two columns": ("DP-SESSION-016", lambda g: g[["pay"]].value_counts(epsilon=1)),
    "values of several": (
        "DP-SESSION-016",
        lambda g: g.value_counts(["city", "city2"], epsilon=1),
    ),
    "bins of several": (
        "DP-SESSION-016",
        lambda g: g.histogram(["age", "pay"], [0, 4, 8], epsilon=1),
    ),
    "one after the other": ("DP-SESSION-023", lambda g: list(g)),
}


@pytest.mark.parametrize(("code", "ask"), WRONG.values(), ids=WRONG)
def test_unsupported_group_queries_are_refused(
    code: str, ask: Callable[[Any], object], tmp_path: Path
) -> None:
    frame, session, _ = registered_frame(tmp_path, "row")
    with pytest.raises(SessionError, match=code) as caught:
        ask(frame.dp.groupby("sex"))
    assert "no row was read, no budget was spent" in str(caught.value)
    if code in ("DP-SESSION-012", "DP-SESSION-015", "DP-SESSION-016"):
        assert isinstance(caught.value, UsageError)
    assert session.spent.epsilon == 0


def test_groupby_with_private_keys(tmp_path: Path) -> None:
    frame, _, _ = registered_frame(tmp_path, "row")
    private: dict[str, Any] = {"epsilon": 90, "delta": "1e-4", "private_keys": True}
    found = frame.dp.groupby("job")["pay"].mean(**private)
    assert isinstance(found, pd.Series)
    assert set(found.index) <= {"baker", "poet"}
