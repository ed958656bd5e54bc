"""Differences of dates and timestamps: DuckDB's values, within the bounds that are declared."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import sqlglot

import dprelease
from dprelease.errors import DpReleaseError, Place, QueryError
from dprelease.query.expressions.predicate import parse_expression
from dprelease.query.sql_rewrites.row_forms import row_form
from dprelease.query.sql_rewrites.value_ranges import bounded_range
from dprelease.schema.load import table_from_mapping
from dprelease.schema.table import Table

FIRST, LAST = date(2019, 12, 30), date(2020, 3, 1)
LATER = date(2020, 6, 30)
BOUNDS = {"lower": str(FIRST), "upper": str(LAST)}
COLUMNS: dict[str, Any] = {
    "a": {"type": "timestamp", **BOUNDS},
    "b": {"type": "timestamp", "lower": str(FIRST), "upper": str(LATER)},
    "d": {"type": "date", **BOUNDS},
    "e": {"type": "date", "lower": str(FIRST), "upper": str(LATER)},
    "f": {"type": "timestamp"},
}
TABLE: Table = table_from_mapping({"table": "t", "columns": COLUMNS}, Path()).table


def instants(last: date) -> list[datetime]:
    """Return the first and the last instant of the bounds, and some between."""
    start, end = (datetime(day.year, day.month, day.day) for day in (FIRST, last))
    ends = [start, end + timedelta(days=1) - timedelta(microseconds=1)]
    return ends + [start + timedelta(hours=h, seconds=s) for h, s in ((1, -1), (1, 0), (700, 59))]


@pytest.mark.parametrize("unit", ["day", "hour", "minute", "second"])
def test_time_differences_reach_their_bounds(unit: str) -> None:
    """The bounds of the difference are reached, so they could not be closer."""
    text = f"date_diff('{unit}', a, b)"
    sql = parse_expression(text, TABLE, Place())[0].sql
    found = bounded_range(sqlglot.parse_one(text, read="duckdb"), TABLE.columns)
    values = []
    for a, b in itertools.product(instants(LAST), instants(LATER)):
        rows = f"(SELECT TIMESTAMP '{a}' AS a, TIMESTAMP '{b}' AS b)"
        (row,) = duckdb.sql(f"SELECT {sql}, {text} FROM {rows}").fetchall()
        assert row[0] == row[1]
        values.append(row[0])
    assert (min(values), max(values)) == (found.lower, found.upper)


@pytest.mark.parametrize(
    "text", ["e - d", "date_diff('day', d, e)", "date_diff('day', a, e)", "b::DATE - a::DATE"]
)
def test_days_between_dates(text: str) -> None:
    node = row_form(sqlglot.parse_one(text, read="duckdb"), TABLE)
    found = bounded_range(node, TABLE.columns)
    assert (found.lower, found.upper) == ((FIRST - LAST).days, (LATER - FIRST).days)


@pytest.mark.parametrize("sign", ["<", "<=", "=", ">"])
@pytest.mark.parametrize(
    "comparison",
    [
        "a {} DATE '2020-01-05'", "d {} TIMESTAMP '2020-01-05 00:00:00'",
        "DATE '2020-01-05' {} a", "d {} '2020-01-05 00:00:00'",
    ],
)  # fmt: skip
def test_dates_and_instants_compare_as_in_duckdb(comparison: str, sign: str) -> None:
    text = comparison.format(sign)
    sql = parse_expression(text, TABLE, Place())[0].sql
    moments = [datetime(2020, 1, day, hour) for day in (4, 5, 6) for hour in (0, 1)]
    rows = " UNION ALL ".join(
        f"SELECT TIMESTAMP '{a}' AS a, DATE '{a:%Y-%m-%d}' AS d" for a in moments
    )
    found = duckdb.sql(f"SELECT {sql}, {text} FROM ({rows})").fetchall()
    assert all(ours == right for ours, right in found)
    assert len({ours for ours, _ in found}) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("b - a", "date_diff"),
        ("date_diff('hour', a, f)", "'f' has no declared bounds"),
        ("date_diff('decade', a, b)", "DP-SQL-006"),
        ("date_diff('hour', a, 'noon')", "DP-WHERE-007"),
    ],
)
def test_impossible_time_differences_are_refused(text: str, words: str) -> None:
    def checked() -> None:
        """Check an expression as SQL does."""
        node = row_form(sqlglot.parse_one(text, read="duckdb"), TABLE)
        parse_expression(node.sql("duckdb"), TABLE, Place())
        bounded_range(node, TABLE.columns)

    with pytest.raises(QueryError, match=words):
        checked()


def test_time_constants() -> None:
    text = "date_diff('hour', a, TIMESTAMP '2020-03-01 10:00:00')"
    found = bounded_range(sqlglot.parse_one(text, read="duckdb"), TABLE.columns)
    assert found.lower is not None
    assert parse_expression(text, TABLE, Place())[0].sql


def test_contradicting_bounds_are_refused() -> None:
    for bounds in ({"lower": "2020-01-01"}, {"lower": "2021-01-01", "upper": "2020-01-01"}):
        column = {"type": "timestamp", **bounds}
        with pytest.raises(DpReleaseError, match="DP-SCHEMA-0"):
            table_from_mapping({"table": "t", "columns": {"a": column}}, Path())


@pytest.mark.usefixtures("replayed_noise")
def test_answers_with_time_differences(tmp_path: Path) -> None:
    """Instants outside of the bounds are missing, and so is their difference."""
    (tmp_path / "t.yaml").write_text(
        "table: t\nsource: {frame: t}\ncolumns:\n"
        f"  a: {{type: timestamp, lower: {FIRST}, upper: {LAST}}}\n"
        f"  b: {{type: timestamp, lower: {FIRST}, upper: {LATER}}}\n"
    )
    rows = [(datetime(2020, 1, 1, 5), datetime(2020, 1, 1 + i % 9, 7)) for i in range(4000)]
    rows += [(datetime(2020, 1, 1), datetime(2200, 1, 1))]
    frame = pd.DataFrame(rows, columns=["a", "b"])
    found = dprelease.sql(
        "SELECT AVG(date_diff('hour', a, b)) AS hours, COUNT(*) FILTER (WHERE "
        "date_diff('day', a, b) > 4) AS days FROM t",
        tmp_path / "t.yaml", epsilon=99, frames={"t": frame},
    )  # fmt: skip
    hours = [(b - a).total_seconds() // 3600 for a, b in rows[:-1]]
    assert found["hours"][0] == pytest.approx(sum(hours) / len(hours), abs=0.5)
    assert found["days"][0] == pytest.approx(sum(i % 9 > 4 for i in range(4000)), abs=3)
