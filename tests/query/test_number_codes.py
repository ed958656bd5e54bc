"""Numbers compared with categories: the number's text where one value is meant, or a condition."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.errors import Place, QueryError
from dprelease.query.expressions.predicate import parse_predicate
from dprelease.schema.load import table_from_mapping
from dprelease.schema.table import Table

MONTHS = ["10", "6", "7", "8", "-1"]
PADDED = ["06", "07", "6", "8", "x"]
COLUMNS: dict[str, Any] = {
    "m": {"type": "category", "values": MONTHS},
    "p": {"type": "category", "values": PADDED},
    "s": {"type": "category", "values": ["F", "M"]},
    "n": {"type": "integer"},
}
TABLE: Table = table_from_mapping({"table": "t", "columns": COLUMNS}, Path()).table


def selected_values(condition: str, column: str, values: list[str]) -> list[str]:
    """Return the values that satisfy the condition that runs."""
    sql = parse_predicate(condition, TABLE, Place()).sql
    rows = ", ".join(f"('{value}')" for value in values)
    found = duckdb.sql(f'SELECT "{column}" FROM (VALUES {rows}) AS t({column}) WHERE {sql}')
    return [row[0] for row in found.fetchall()]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("m IN (6, 7)", ["6", "7"]),
        ("m = 6", ["6"]),
        ("7 = m", ["7"]),
        ("m = 6.0", ["6"]),
        ("m = -1", ["-1"]),
        ("m <> 6", ["10", "7", "8", "-1"]),
        ("NOT m IN (6, '7', 10)", ["8", "-1"]),
        ("m IS NOT DISTINCT FROM 8", ["8"]),
        ("CASE WHEN m = 6 THEN TRUE ELSE m = 7 END", ["6", "7"]),
        ("(m) = (8)", ["8"]),
    ],
)
def test_number_compared_with_category_means_its_text(condition: str, expected: list[str]) -> None:
    assert selected_values(condition, "m", MONTHS) == expected


def test_number_equal_to_one_value() -> None:
    assert selected_values("p = 8", "p", PADDED) == ["8"]


@pytest.mark.parametrize(
    ("condition", "column", "meant"),
    [
        ("p = 6", "p", lambda number: number == 6),
        ("p IN (6, 8)", "p", lambda number: number in (6, 8)),
        ("p = 7", "p", lambda number: number == 7),
        ("p <> 7", "p", lambda number: number != 7),
        ("m > 6", "m", lambda number: number > 6),
        ("6 <= m", "m", lambda number: number >= 6),
        ("m < 7", "m", lambda number: number < 7),
        ("m BETWEEN 6 AND 8", "m", lambda number: 6 <= number <= 8),
    ],
)
def test_ambiguous_numbers_are_refused_with_a_fix(
    condition: str, column: str, meant: Callable[[int], bool]
) -> None:
    with pytest.raises(QueryError, match="DP-WHERE-013") as error:
        parse_predicate(condition, TABLE, Place())
    instead = error.value.fix.removeprefix("write ").removesuffix(".")
    values = {"m": MONTHS, "p": PADDED}[column]
    numbers = [value for value in values if value != "x"]
    assert selected_values(instead, column, numbers) == [v for v in numbers if meant(int(v))]


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("m IN (6, 11)", "DP-WHERE-011"),
        ("s = 1", "DP-WHERE-011"),
        ("s > 1", "DP-WHERE-007"),
        ("m > 99", "DP-WHERE-007"),
        ("m = n", "DP-WHERE-007"),
        ("m BETWEEN 6 AND n", "DP-WHERE-007"),
        ("n = '6'", "DP-WHERE-007"),
    ],
)
def test_other_comparisons_are_refused(condition: str, code: str) -> None:
    with pytest.raises(QueryError, match=code):
        parse_predicate(condition, TABLE, Place())


@pytest.mark.each
@pytest.mark.parametrize("order", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("bound", range(-2, 12))
def test_orders_of_numbers_in_both_directions(
    order: Callable[[int, int], bool], bound: int
) -> None:
    sign = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}[order.__name__]
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[sign]
    expected = [value for value in MONTHS if order(int(value), bound)]
    for condition in (f"m {sign} {bound}", f"{bound} {mirrored} m"):
        with pytest.raises(QueryError) as error:
            parse_predicate(condition, TABLE, Place())
        assert error.value.code == ("DP-WHERE-013" if expected else "DP-WHERE-007")
        if expected:
            assert (
                selected_values(
                    error.value.fix.removeprefix("write ").removesuffix("."), "m", MONTHS
                )
                == expected
            )
