"""Sums over grouped rows equal sums over single rows, for all aggregates."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.query.aggregates.sum import Sum
from dprelease.query.resolve import Query
from dprelease.statements.compiled_queries import compile_without_data
from dprelease.statements.compiler import Compiler
from dprelease.statements.values import row_values
from dprelease.statements.values.row_values import group_total_terms
from tests.exact.build import ask, declare

NUMBERS: dict[str, dict[str, Any]] = {
    "integers": {"type": "integer", "lower": -7, "upper": 90},
    "steps": {"type": "integer", "lower": 0, "upper": 90, "step": 7},
    "numbers": {"type": "number", "lower": -7, "upper": 90, "step": "0.25"},
    "few": {"type": "number", "lower": "0.3", "upper": "0.4", "step": "0.1"},
    "huge": {"type": "integer", "lower": -(2**62), "upper": 2**62},
}
STORED: dict[str, pa.Array] = {
    "whole": pa.array([None, -9, 0, 3, 3, 89, 1000, -1000, None, 5], pa.int64()),
    "floats": pa.array([None, -9.5, 0.125, 3.0, -0.0, math.nan, math.inf, -math.inf, 0.35, 5e300]),
}
ASKED: dict[str, dict[str, Any]] = {
    "one": {"s": {"sum": "v"}},
    "a mean": {"m": {"mean": "v"}},
    "several": {
        "s": {"sum": "v"},
        "m": {"mean": "v"},
        "n": {"count": "v"},
        "a": {"count": "*"},
        "b": {"count": "band"},
    },
    "squares": {"m": {"mean": "v"}, "d": {"variance": "v"}},
    "a ratio": {"r": {"ratio": ["v", "w"]}, "m": {"mean": "w"}},
}
CASES = [
    (number, stored, asked, nulls)
    for number, stored, asked, nulls in product(NUMBERS, STORED, ASKED, ("drop", 0))
    if not (number == "huge" and (stored == "floats" or asked == "squares"))
    and not (number == "few" and nulls == 0)
    and not (nulls == 0 and asked == "squares")
]


def build_query(number: str, asked: str, nulls: str | int) -> list[Query]:
    columns = {
        "v": NUMBERS[number] | {"fill": nulls},
        "w": {"type": "integer", "lower": 0, "upper": 9, "fill": "drop"},
        "k": {"type": "category", "values": ["1", "2", "3"]},
    }
    if number != "huge":
        columns["band"] = {"cut": "v", "edges": [0, 1, 50]}
    columns_asked = {n: c for n, c in ASKED[asked].items() if number != "huge" or n != "b"}
    declared = declare(columns)
    return [ask(declared, columns_asked, by) for by in ([], ["k"])]


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("number", "stored", "asked", "nulls"), CASES)
def test_group_totals_equal_totals_of_rows(
    number: str, stored: str, asked: str, nulls: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = STORED[stored]
    others = pa.array([i % 4 or None for i in range(len(values))], pa.int64())
    frame = pa.table({"v": values, "w": others, "k": others})
    for query in build_query(number, asked, nulls):
        with Engine.open(query.declared, frame) as engine:
            found = vectors(engine, query)
            with monkeypatch.context() as changed:
                changed.setattr(row_values, "GROUPED", {})
                assert found == vectors(engine, query)


def vectors(engine: Engine, query: Query) -> dict[str, list[int]]:
    found = engine.run(query)
    return {each.name: found.vector(each.name).tolist() for each in query.measurements}


@pytest.mark.parametrize("nulls", ["drop", 0])
def test_centred_sum_equals_hand_computation(nulls: str | int) -> None:
    values = STORED["whole"]
    (query, _), low, high = build_query("integers", "a mean", nulls), -7, 90
    with Engine.open(query.declared, pa.table({"v": values})) as engine:
        found = vectors(engine, query)
    (total,) = (m for m in query.measurements if isinstance(m.aggregate, Sum))
    center = (low + high) // 2
    known = [value if nulls == "drop" else value or 0 for value in values.to_pylist()]
    added = [min(max(value, low), high) - center for value in known if value is not None]
    assert found[total.name] == [sum(added)]


def test_sums_around_several_centers_share_one_sum() -> None:
    query = build_query("integers", "several", "drop")[0]
    assert compile_without_data(query).sql.split("placed AS")[0].count("sum(") == 1


def test_centred_sum_ignores_rows_without_the_other_value() -> None:
    """Such rows do not even add the center."""
    (query, _) = build_query("integers", "a mean", "drop")
    compiler = Compiler(query, {"v": "BIGINT", "w": "BIGINT", "k": "BIGINT"}, {})
    total = Sum("v", -7, 90, Fraction(1), center=40, beside="w")
    sql = " + ".join(f"{each} * {factor}" for each, factor in group_total_terms(compiler, total))
    with duckdb.connect() as link:
        rows = "(VALUES (5, 1), (6, NULL), (NULL, 1), (NULL, NULL), (7, 2)) typed(v, w)"
        assert link.sql(f"SELECT {sql} FROM {rows}").fetchall() == [(5 + 7 - 2 * 40,)]
