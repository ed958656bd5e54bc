"""DuckDB uses statistics of Parquet files only for queries that read no floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.exact.engines import open_engines
from dprelease.query.resolve import Query
from dprelease.schema.release import ReleaseSpec
from tests.exact.build import ask, declare

PAY = {"type": "number", "lower": 0, "upper": 9, "step": "0.25"}
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "age": {"type": "integer", "lower": 0, "upper": 9},
    "pay": PAY,
    "twice": {**PAY, "expression": "pay + pay"},
    "band": {"cut": "pay", "edges": [0, 4, 10]},
}
NAN = float("nan")
ROWS = {"id": [1, 2, 3], "age": [1, 2, 3], "pay": [NAN, 0.25, 7.0]}


@pytest.fixture
def source(tmp_path: Path) -> Any:
    """A table whose file has statistics that don't show that a value is NaN."""
    pq.write_table(pa.table(ROWS), tmp_path / "t.parquet")
    return declare(COLUMNS, source=str(tmp_path / "t.parquet"))


def disabled_optimizers(engine: Engine) -> str:
    asked = "SELECT current_setting('disabled_optimizers')"
    ((found,),) = engine._connection.execute(asked).fetchall()
    return str(found)


READS: dict[str, dict[str, Any]] = {
    "a sum": {"columns": {"m": {"sum": "pay"}}},
    "what is known": {"columns": {"m": {"count": "pay"}}},
    "a median": {"columns": {"m": {"median": "pay"}}},
    "a computed column": {"columns": {"m": {"sum": "twice"}}},
    "a key": {"columns": {"m": {"count": "*"}}, "by": ["band"]},
    "a condition": {"columns": {"m": {"count": "*"}}, "where": "pay > 1"},
    "a condition on a computed column": {"columns": {"m": {"count": "*"}}, "where": "twice > 1"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "rows": {"columns": {"m": {"count": "*"}}},
    "whole numbers": {"columns": {"m": {"sum": "age"}, "n": {"median": "age"}}, "by": ["age"]},
    "a condition": {"columns": {"m": {"count": "*"}}, "where": "age > 1"},
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_queries_of_floats_disable_statistics(read: Any, source: Any) -> None:
    query, other = ask(source, **read), ask(source, **OTHERS["rows"])
    for queries in ([query], [other, query]):
        with Engine.open(source, queries=queries) as engine:
            assert disabled_optimizers(engine) == "statistics_propagation"
            engine.compile(query)


@pytest.mark.parametrize("read", OTHERS.values(), ids=list(OTHERS))
def test_queries_without_floats_use_statistics(read: Any, source: Any) -> None:
    query = ask(source, **read)
    with Engine.open(source, queries=[query]) as engine:
        assert disabled_optimizers(engine) == ""
        engine.compile(query)


def test_sessions_disable_statistics(source: Any) -> None:
    with Engine.open(source) as engine:
        assert disabled_optimizers(engine) == "statistics_propagation"
        engine.compile(ask(source, **READS["a sum"]))


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_engine_refuses_queries_it_was_not_opened_for(read: Any, source: Any) -> None:
    with Engine.open(source, queries=[ask(source, **OTHERS["rows"])]) as engine:
        engine.compile(ask(source, **OTHERS["whole numbers"]))
        with pytest.raises(AssertionError, match="opened for other queries"):
            engine.compile(ask(source, **read))


def first_numbers(queries: list[Query]) -> list[int]:
    """Return the first number of each query, in an engine that a release opens."""
    spec = ReleaseSpec.model_construct(engine="duckdb")
    with open_engines(queries, {}, spec) as engines:
        return [int(engines[query.name].run(query).vector("m")[0]) for query in queries]


def test_nan_is_not_counted_next_to_queries_without_floats(source: Any) -> None:
    """With the statistics, three values would be counted."""
    assert first_numbers([ask(source, **READS["what is known"])]) == [2]
    assert first_numbers([ask(source, **OTHERS["rows"])]) == [3]


@pytest.mark.parametrize("side", ["own", "joined"])
def test_floats_of_either_joined_table_disable_statistics(side: str, tmp_path: Path) -> None:
    number = {"type": "number", "lower": 0, "upper": 9, "step": "0.25"}
    code = {"type": "integer", "lower": 1, "upper": 3}
    names = {"own": "x", "joined": "y"}
    for table, name in (("t", "x"), ("places", "y")):
        rows = pa.table({"code": [1, 2, 3], name: [1.0, 2.0, 3.0]})
        pq.write_table(rows, tmp_path / f"{table}.parquet")
    path = str(tmp_path / "places.parquet")
    places = declare({"code": code, "y": number}, table="places", public=True, source=path)
    own = declare({"code": code, "x": number}, source=str(tmp_path / "t.parquet"))
    join = {"table": "places", "on": {"code": "code"}}
    for name in ("code", names[side]):
        query = ask(own, {"m": {"sum": name}}, other=places, join=join)
        with Engine.open(own, joined=places, queries=[query]) as engine:
            assert bool(disabled_optimizers(engine)) == (name != "code")
            assert int(engine.run(query).vector("m")[0]) > 0
