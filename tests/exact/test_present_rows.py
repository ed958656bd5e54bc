"""Rows without the only summed number are skipped, and no sum changes."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import Query
from dprelease.statements import compiler
from dprelease.statements.compiled_queries import compile_without_data
from tests.exact.build import ask, declare

PAY: dict[str, Any] = {"type": "number", "lower": 0, "upper": 9, "step": "0.25"}
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "state": {"type": "category", "values": ["NH", "VT"], "fill": "VT"},
    "pay": PAY,
    "filled": {**PAY, "fill": "3"},
    "age": {"type": "integer", "lower": 0, "upper": 9},
    "twice": {**PAY, "expression": "pay + pay"},
    "band": {"cut": "pay", "edges": [0, 4, 10]},
}
STATES = ["NH", "VT", None, "NH", "VT", "other", "NH", None]
PAYS: dict[str, pa.Array] = {
    "floats": pa.array([0.25, None, 3.0, math.nan, -math.nan, None, 99.0, -5.0]),
    "small floats": pa.array([0.25, None, 3.0, math.nan, math.inf, None, 99.0, -5.0], pa.float32()),
    "only NaN": pa.array([math.nan] * 8),
    "nothing": pa.nulls(8, pa.float64()),
    "integers": pa.array([1, None, 3, 4, 2**40, None, -9, 0]),
    "decimals": pa.array(
        [Decimal("1.25"), None, Decimal("3.10"), *[None] * 5], pa.decimal128(9, 2)
    ),
    "texts": pa.array(["1.25", "", "x", None, "nan", "1e0", " 2", "-1"]),
}
ASKED: dict[str, dict[str, Any]] = {
    "a sum": {"columns": {"s": {"sum": "pay"}}},
    "what is known": {"columns": {"n": {"count": "pay"}}},
    "both and a mean": {"columns": {"s": {"sum": "pay"}, "n": {"count": "pay"}, "m": {"mean": "pay"}}},
    "spread": {"columns": {"v": {"variance": "pay"}}},
    "with a condition": {"columns": {"s": {"sum": "pay"}}, "where": "age > 2"},
    "with a condition on it": {"columns": {"s": {"sum": "pay"}}, "where": "pay IS NULL OR pay > 0"},
    "by its bands": {"columns": {"s": {"sum": "pay"}}, "by": ["band"]},
    "beside a median": {"columns": {"s": {"sum": "pay"}, "m": {"median": "pay"}}},
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "rows": {"columns": {"n": {"count": "*"}}},
    "rows beside": {"columns": {"n": {"count": "*"}, "s": {"sum": "pay"}}},
    "two numbers": {"columns": {"s": {"sum": "pay"}, "t": {"sum": "age"}}},
    "what stands in": {"columns": {"s": {"sum": "filled"}}},
    "what is computed": {"columns": {"s": {"sum": "twice"}}},
    "a category": {"columns": {"n": {"count": "state"}}},
    "bounded rows": {"columns": {"s": {"sum": "pay"}}, "unit": "id"},
    "bounded rows of one kind": {"columns": {"d": {"count_distinct": "state"}}},
}
"""Queries in which rows without a number count, or take the place of others."""


def build_query(more: dict[str, Any]) -> Query:
    given = {"by": ["state"]} | more
    unit = given.pop("unit", None)
    bounds = (
        {"privacy_unit": {"id": unit, "max_groups": 1, "max_rows_per_group": 1}} if unit else {}
    )
    return ask(declare(COLUMNS, **bounds), **given)


def rows(pays: pa.Array) -> pa.Table:
    names = {"id": list(range(8)), "state": STATES, "age": list(range(8))}
    return pa.table({**{n: pa.array(v) for n, v in names.items()}, "pay": pays, "filled": pays})


def query_vectors(query: Query, table: pa.Table) -> dict[str, list[Any]]:
    with Engine.open(query.declared, table, queries=[query]) as engine:
        known = engine.run(query)
        vectors = [m.name for m in query.measurements if m.is_vector]
        return {name: known.vector(name).tolist() for name in vectors}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("kind", PAYS)
def test_skipping_missing_rows_changes_no_sum(kind: str, name: str) -> None:
    query, table = build_query(ASKED[name]), rows(PAYS[kind])
    fast = query_vectors(query, table)
    with mock.patch.object(compiler, "presence_condition_sql", return_value=""):
        assert fast == query_vectors(query, table)
    assert 'dp_source WHERE "pay" IS NOT NULL' in compile_without_data(query).text


@pytest.mark.parametrize("name", OTHERS)
def test_counts_of_rows_read_all_rows(name: str) -> None:
    text = compile_without_data(build_query(OTHERS[name])).text
    assert "dp_source" in text
    assert "dp_source WHERE" not in text


def test_row_groups_without_statistics_are_read(tmp_path: Path) -> None:
    """DuckDB skips row groups that are all missing by their statistics; NaN is not missing."""
    kinds = ([None] * 4, [math.nan] * 4, [None, math.nan, 2.0, None], [0.25] * 4)
    pays = pa.array([pay for kind in kinds for pay in kind], pa.float64())
    table = pa.table({"state": pa.array(["NH"] * 16), "pay": pays})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    columns = {name: COLUMNS[name] for name in ("state", "pay")}
    declared = declare(columns, source=str(tmp_path / "t.parquet"))
    query = ask(declared, {"s": {"sum": "pay"}, "n": {"count": "pay"}}, by=["state"])
    with Engine.open(declared, queries=[query]) as engine:
        known = engine.run(query)
    assert [known.vector(name).tolist() for name in "sn"] == [[12, 0], [5, 0]]
