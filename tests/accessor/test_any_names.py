"""Columns may have any names: every query gives the same numbers as with plain names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.accessor.tables import Tables
from dprelease.errors import DeclarationError
from tests.replay import Keyed

HARMLESS = ("key", "other", "number", "person")
AWKWARD = (
    *("answer", "moe", "count", "value", "count", "count_moe", "value", "answer_moe"),
    *("a0", "a1_moe", "q", "q0", "c0_0", "size", "moe", "cell", "id", "n", "k0", "v0"),
    *("count_rows", "count_rows_moe", "x_band", "kept", "lower", "upper", "margin", "index"),
    *("level_0", "typed", "dp_source", "dp_keys_0", "noised", "private_keys", "rowid", "select"),
    *("Answer", "COUNT", "ANSWER_MOE", "one", "GROUP", "order", "table", "None", "0", "1"),
    *("Größe", "a b", 'qu"ote', "it's", "x.y", "%s", "{x}", "columns", "total", "placed"),
    *("mean", "std", "n_moe", "name"),
)
CASES = list(zip(*[iter(AWKWARD)] * 4, strict=True))
TERMS = {"epsilon": 1}
EDGES = [0, 10, 20, 50]
KEEP: list[dprelease.Session] = []
"""Sessions: a frame holds its own by an id only."""


@pytest.fixture(autouse=True)
def _end_sessions() -> Iterator[None]:
    """Each session keeps a DuckDB and a folder, which all later engines look at."""
    yield
    KEEP.clear()


def rows(names: tuple[str, ...]) -> pd.DataFrame:
    """Return a frame that is registered, its columns under these names."""
    key, other, number, person = names
    i = np.arange(240)
    two, three = np.array(["u", "v"])[i % 2], np.array(["p", "q", "r"])[i % 3]
    frame = pd.DataFrame({key: two, other: three, number: i * 7 % 50, person: i // 2})
    schema: dict[str, Any] = {
        "table": "t",
        "privacy_unit": {"id": person, "max_groups": 6, "max_rows_per_group": 2},
        "columns": {
            key: {"type": "category", "values": ["u", "v"]},
            other: {"type": "category", "values": ["p", "q", "r"]},
            number: {"type": "integer", "lower": 0, "upper": 49},
            person: {"type": "integer"},
        },
    }
    KEEP.append(dprelease.Session(schema, epsilon=10_000, delta="0.1"))
    frame.dp.use(KEEP[-1])
    return frame


def questions(names: tuple[str, ...], dp: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    k, o, x, person = names
    for question in ("sum", "mean", "variance", "stddev", "median", "min", "max", "count"):
        yield question, lambda q=question: getattr(dp, q)(x, by=[k, o], **TERMS)
    yield "rows", lambda: dp.count(**TERMS)
    yield "distinct", lambda: dp.count_distinct(person, by=k, **TERMS)
    yield "quantiles", lambda: dp.quantile(x, [0.25, 0.5], by=k, **TERMS)
    yield "mode", lambda: dp.mode(o, by=k, **TERMS)
    yield "values", lambda: dp.value_counts(k, **TERMS)
    yield "values by", lambda: dp.value_counts(o, by=k, sort=False, **TERMS)
    yield "unique", lambda: dp.unique([k, o])
    yield "crosstab", lambda: dp.crosstab(k, o, **TERMS)
    yield "histogram", lambda: dp.histogram(x, EDGES, **TERMS)
    yield "histogram by", lambda: dp.histogram(x, EDGES, by=k, **TERMS)
    yield "describe", lambda: dp.describe(x, **TERMS)
    yield "describe by", lambda: dp.describe([x], by=[o], **TERMS)
    yield "where", lambda: dp.where(f"{quoted(x)} > 7 AND {quoted(k)} = 'u'").count(**TERMS)
    yield "private keys", lambda: dp.count(by=[k, o], private_keys=True, epsilon=9, delta="1e-4")
    doubled = {"expression": f"{quoted(x)} * 2", "type": "integer", "lower": 0, "upper": 98}
    yield "derive", lambda: dp.derive(twice=doubled).mean("twice", by=k, **TERMS)
    yield "explain", lambda: dp.explain("histogram", x, EDGES, by=k, **TERMS).reset_index(drop=True)
    yield "cube", lambda: dp.tables(cube=[k, o], **TERMS)
    yield "consistent", lambda: dp.tables(marginals=[[k], [o]], consistent=True, **TERMS)
    for flat in (False, True):
        groups = dp.groupby(k, as_index=not flat)
        yield f"size {flat}", lambda g=groups: g.size(**TERMS)
        yield f"one {flat}", lambda g=groups: g[x].mean(**TERMS)
        yield f"key {flat}", lambda g=groups: g[k].count(**TERMS)
        yield f"quantiles {flat}", lambda g=groups: g[x].quantile([0.1, 0.9], **TERMS)
        yield f"values {flat}", lambda g=groups: g[o].value_counts(**TERMS)
        yield f"bands {flat}", lambda g=groups: g[x].histogram(EDGES, **TERMS)
        yield f"described {flat}", lambda g=groups: g[x].describe(**TERMS)
        yield f"levels {flat}", lambda g=groups: g.agg({x: ["mean", "sum"]}, margins=True, **TERMS)
        yield f"functions {flat}", lambda g=groups: g[x].agg(["mean", "count"], **TERMS)
        yield f"each {flat}", lambda g=groups: g.agg({x: "mean", k: "count"}, margins=True, **TERMS)
    yield from in_sql(names, dp)


def in_sql(names: tuple[str, ...], dp: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    k, o, x = (quoted(name) for name in names[:3])
    statements = (
        f"SELECT {k}, count(*), sum({x}) FROM t GROUP BY {k} ORDER BY count(*)",
        f"SELECT {k}, {o}, count(*) AS ours, avg({x}) AS ours_moe, ours / 2 AS more FROM t "
        f"WHERE {x} > 3 GROUP BY {k}, {o} HAVING ours > 10 ORDER BY ours_moe",
        f"SELECT {k}, -sum({x}) AS sums FROM t GROUP BY 1 ORDER BY count(*) LIMIT 1",
    )
    for statement in statements:
        yield statement.replace(k, "key"), lambda s=statement: dp.sql(s, **TERMS)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def plain(answer: Any) -> list[Any]:
    """Return all numbers and keys of an answer, without names."""
    if isinstance(answer, Tables):
        return [plain(frame) for of in (answer, answer.measurements) for frame in of.values()]
    frame = answer.to_frame() if isinstance(answer, pd.Series) else answer
    assert frame.columns.is_unique
    return [repr(frame.to_numpy().tolist()), [repr(at) for at in frame.index]]


def run_queries(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr("dprelease.release.execute.Entropy", lambda: Keyed("noise"))
    return [plain(ask()) for _, ask in questions(names, rows(names).dp)]


@pytest.fixture(scope="module")
def plain_names() -> list[Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return run_queries(HARMLESS, monkeypatch)


@pytest.mark.share(0.1)
@pytest.mark.parametrize("names", CASES, ids=str)
def test_column_names_change_no_number(
    names: tuple[str, ...], plain_names: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [name for name, _ in questions(names, rows(names).dp)]
    for name, found, wanted in zip(
        asked, run_queries(names, monkeypatch), plain_names, strict=True
    ):
        assert found == wanted, name


def test_result_columns_avoid_names_of_keys() -> None:
    """`_` is appended until no key has the name, in columns and in the index."""
    dp = rows(("value", "count", "count_", "moe")).dp
    assert list(dp.count(by="value", **TERMS)) == ["value", "value_", "moe", "quality"]
    assert list(dp.value_counts("count", **TERMS)) == ["count_", "moe", "quality"]
    found = dp.histogram("count_", EDGES, by="count", **TERMS)
    assert found.index.names == ["count", "count_"]
    assert list(found) == ["count__", "moe", "quality"]
    assert list(found.reset_index()) == ["count", "count_", "count__", "moe", "quality"]
    flat = dp.groupby("count", as_index=False)
    assert list(flat["count"].count(**TERMS)) == ["count", "count_"]
    assert list(flat["count_"].agg(["count"], **TERMS)) == ["count", "count_"]
    tables = dp.tables(cube=["count", "value"], **TERMS)
    assert list(tables["count"]) == ["count_", "count__moe", "count__quality"]


def test_cuts_are_keys_but_no_columns() -> None:
    schema = {
        "table": "t",
        "columns": {
            "age": {"type": "integer", "lower": 0, "upper": 99},
            "age_band": {"cut": "age", "edges": [0, 18, 100]},
        },
    }
    session = dprelease.Session(schema, epsilon=100)
    frame = pd.DataFrame({"age": [3, 70] * 200})
    frame.dp.use(session)
    found = frame.dp.histogram("age", [0, 50, 100], by="age_band", epsilon=50)
    assert found.index.names == ["age_band", "age"]
    assert found["count"].tolist() == pytest.approx([200, 0, 0, 200], abs=2)


def test_order_by_prefers_names_of_the_result() -> None:
    """Names of the result precede those of the noisy table."""
    dp = rows(HARMLESS).dp
    statement = "SELECT other, -count(*) AS other2, sum(number) AS total FROM t GROUP BY other "
    by_rows = statement.replace("other2", "count_rows") + "ORDER BY count(*) DESC"
    found = dp.sql(by_rows, epsilon=1)["count_rows"].tolist()
    assert found == sorted(found)
    by_name = statement.replace("other2", "total2") + "ORDER BY total2"
    found = dp.sql(by_name, epsilon=1)["total2"].tolist()
    assert found == sorted(found)


def test_column_with_the_name_of_all_rows_is_refused() -> None:
    with pytest.raises(DeclarationError, match="all rows"):
        dprelease.Session({"table": "t", "columns": {"*": {"type": "integer"}}}, epsilon=1)
