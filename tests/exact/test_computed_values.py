"""Computed columns against plain Python, and neighbours against the claimed sensitivities (V22)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from tests.covering import examples, thinned
from tests.exact.build import ask, declare, exact
from tests.exact.reference import reference
from tests.exact.test_reference import (
    COLUMNS,
    ROWS,
    TABLES,
    UNITS,
    as_table,
    breaches,
    claims,
    units_of,
)

Row = dict[str, Any]
COMPUTED: dict[str, Any] = {
    "pay": {"expression": "n * x", "type": "number", "lower": -20, "upper": 60, "step": "0.25"},
    "ratio": {
        "expression": "x / n",
        "type": "number",
        "lower": -3,
        "upper": 3,
        "step": "0.125",
        "fill": 1,
    },
    "whole": {"expression": "floor(x)", "type": "integer", "lower": -3, "upper": 9, "fill": 2},
    "word": {
        "expression": "CASE WHEN n < 0 THEN 'neg' WHEN n > 5 THEN upper(left(k, 1)) ELSE k END",
        "type": "category",
        "values": ["neg", "A", "B", "b"],
        "others": "b",
    },
    "band": {"cut": "pay", "edges": [-20, 0, 10, 61], "fill": "0-9"},
    "hit": {"expression": "band = '10-60' OR flag", "type": "boolean"},
    "twice": {"expression": "pay + ratio", "type": "number", "lower": 0, "upper": 9, "step": 1},
}
MEASURES: dict[str, Any] = {
    "rows": {"count": "*"},
    "pay": {"sum": "pay"},
    "ratio": {"sum": "ratio"},
    "wholes": {"sum": "whole"},
    "twice": {"sum": "twice"},
    "known": {"count": "twice"},
    "rate": {"ratio": ["pay", "twice"]},
    "words": {"count_distinct": "word"},
}
KEYS = [[], ["word"], ["hit", "band"], ["whole"]]


def _number(row: Row, name: str) -> float | None:
    """Return a row's number; None if it is missing, or a declared code for that."""
    value, codes = row[name], np.array(COLUMNS[name]["missing"], dtype=float)
    return None if value is None or math.isnan(value) or value in codes else float(value)


def _ieee_result(compute: Callable[..., float], *values: float | None) -> float | None:
    """Return the IEEE result for these values; None if one is missing, or for NaN."""
    if None in values:
        return None
    found = compute(*values)
    return None if math.isnan(found) else found


def _word(n: float | None, k: str | None) -> str | None:
    if k not in ("a", "b", "c", "", None):
        k = "?"  # undeclared codes look alike
    if n is not None and n < 0:
        return "neg"
    if n is not None and n > 5:
        return None if k is None else k[:1].upper()
    return k


def with_computed(row: Row) -> Row:
    """Return a row with the computed columns, by plain Python."""
    n, x = _number(row, "n"), _number(row, "x")
    pay = _ieee_result(lambda a, b: a * b, n, x)
    ratio = None if n == 0 else _ieee_result(lambda a, b: a / b, x, n)
    whole = x if x is None or math.isinf(x) else float(math.floor(x))
    high = None if pay is None else 10 <= pay < 61
    # As a label, too, a missing value lies in the declared cell, and beyond the edges is nothing.
    if pay is None:
        high = False
    elif not -20 <= pay < 61:
        high = None
    hit = True if high or row["flag"] else (None if None in (high, row["flag"]) else False)
    twice = _ieee_result(lambda a, b: a + b, pay, ratio)
    found = {"pay": pay, "ratio": ratio, "whole": whole, "word": _word(n, row["k"])}
    return {**row, **found, "hit": hit, "twice": twice}


def build(
    unit: Row, by: list[str], where: str | None = None, *, in_query: bool = False, **more: Any
) -> Query:
    """Return a query over computed columns, declared in the schema or in the query."""
    measurements = dict(MEASURES)
    given = {"privacy_unit": unit} if unit else {}
    if in_query:
        return ask(declare(COLUMNS, **given), measurements, by, where, derive=COMPUTED, **more)
    return ask(declare({**COLUMNS, **COMPUTED}, **given), measurements, by, where, **more)


@pytest.mark.share(0.15)
@pytest.mark.parametrize("by", KEYS, ids=str)
@pytest.mark.parametrize("unit", UNITS[:3], ids=str)
@examples(7)
@given(rows=TABLES, in_query=st.booleans())
def test_computed_columns_equal_the_reference(
    unit: Row, by: list[str], rows: list[Row], in_query: bool
) -> None:
    query = build(unit, by, in_query=in_query)
    found = exact(query, as_table(rows))
    for name, vector in reference(query, [with_computed(row) for row in rows]).items():
        assert found[name].tolist() == vector, name


@examples(12)
@given(rows=TABLES)
def test_conditions_on_computed_columns(rows: list[Row]) -> None:
    query = build({}, ["word"], "hit AND pay > 12 OR word = 'neg'")

    def keep(row: Row) -> bool:
        high = row["pay"] is not None and row["pay"] > 12
        return bool(row["hit"] and high) or row["word"] == "neg"

    wanted = reference(query, [with_computed(row) for row in rows], keep)
    assert exact(query, as_table(rows))["rows"].tolist() == wanted["rows"]


@pytest.mark.share(0.15, by="neighbours")
@pytest.mark.parametrize(
    ("unit", "by", "neighbours"), thinned(UNITS[:3], KEYS[:3], list(Neighbours)), ids=str
)
@examples(3)
@given(rows=st.lists(ROWS, max_size=8), others=st.lists(ROWS, min_size=1, max_size=3))
def test_computed_columns_keep_the_claimed_sensitivity(
    unit: Row, by: list[str], neighbours: Neighbours, rows: list[Row], others: list[Row]
) -> None:
    """Each person is removed in turn, or replaced by another one."""
    query = build(unit, by, neighbours=neighbours)
    new = [] if neighbours is Neighbours.ADD_REMOVE else (others if unit else others[:1])
    whole = exact(query, as_table(rows))
    for gone in units_of(query, rows):
        rest = [row for i, row in enumerate(rows) if i not in gone]
        rest += [{**row, "id": 99} for row in new]
        assert not breaches(query, whole, exact(query, as_table(rest)), claims(query))


POISON = pa.table(
    {
        "i": pa.array([None, 0, 2**63 - 1, -(2**63)], pa.int64()),
        "x": pa.array([float("nan"), float("inf"), 5e-324, -1e308]),
        "s": pa.array([None, "", "%", "SECRET-4711"]),
        "d": pa.array([None, 2**31 - 2, -(2**31) + 2, 0], pa.int32()).cast(pa.date32()),
        "t": pa.array([None, 2**63 - 1, -(2**63), 0], pa.int64()).cast(pa.timestamp("us")),
    }
)
STORED: dict[str, Any] = {
    "i": {"type": "integer"},
    "x": {"type": "number"},
    "s": {"type": "text"},
    "d": {"type": "date"},
    "t": {"type": "timestamp"},
}
TOTAL = {
    "number": [
        "1 / i", "i % i", "x / (i - i)", "i * i * i * i * x", "x * x", "-i", "round(x / 1e-300)",
        "ceil(i) - floor(x)", "greatest(i, x)", "least(x, i, 0)", "nullif(x, i)", "abs(i)",
        "year(d) * 1e300 * 1e300", "date_diff('day', d, t)", "hour(t) + minute(t)", "isodow(d)",
        "if(i > 0, i, x)", "coalesce(x, i)", "length(s)", "s", "substr(s, 2, 3)", "i > x",
    ],
    "integer": ["i", "x", "i / 3", "s", "i * 1e300", "x > 0", "dayofyear(t)", "quarter(d)", "week(d)", "hour(t)"],
    "boolean": ["i", "x", "s", "s = '' OR i / i = 1", "starts_with(s, 'S')"],
    "date": ["d", "t", "s", "left(s, 4)", "date_trunc('month', d)", "date_trunc('week', t)", "make_date(x, i, 1)", "make_date(i, 2, 30)", "greatest(d, '2024-01-01')", "if(i > 0, d, DATE '2024-01-01')"],
    "text": ["upper(trim(s))", "d", "i > 0", "nullif(s, '')", "strftime(d, '%Y %B %a')"],
}  # fmt: skip


@pytest.mark.share(0.12)
@pytest.mark.parametrize(
    ("kind", "expression"), [(k, e) for k, texts in TOTAL.items() for e in texts]
)
def test_no_value_makes_an_expression_fail(kind: str, expression: str) -> None:
    """Every expression has a value for every row of any type, and reads only that row."""
    more = {"lower": -5, "upper": 5} if kind in ("integer", "number") else {}
    computed = {"v": {"expression": expression, "type": kind, **more}}
    measurement = {"m": {"sum": "v"}} if more else {"m": {"count": "v"}}
    query = ask(declare(STORED), measurement, derive=computed)
    whole = exact(query, POISON)["m"]
    assert whole == sum(exact(query, POISON.slice(i, 1))["m"] for i in range(4))


def test_computed_values_are_clamped_after_the_computation() -> None:
    """1e300 hours at 1e300 are infinite; nobody adds more than the bound."""
    columns = {"h": {"type": "number"}, "r": {"type": "number"}}
    pay = {"expression": "h * r", "type": "number", "lower": 0, "upper": 100, "step": 1}
    query = ask(declare({**columns, "pay": pay}), {"pay": {"sum": "pay"}})
    table = pa.table({"h": [1e300, 2.0, -5.0], "r": [1e300, 3.4, 1e9]})
    assert exact(query, table)["pay"].tolist() == [107]
    assert query.measurements[0].sensitivity.largest_shift == 100
