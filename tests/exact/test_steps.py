"""Values on the step grid: inside the bounds for all values and stored types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pytest

from dprelease.query.aggregates.sum import Sum
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.statements.values.lattice_steps import steps
from tests.exact.build import declare

WHOLE = [0, 1, 4, 5, 6, 14, 15, 25, 99, 100, 101, 10**9, 2**62]
VALUES = [*WHOLE, *(-value for value in WHOLE), None]
PARTS = [0.5, 1.5, 2.25, -0.5, -2.5, 9.75, 1e300, float("inf"), float("-inf"), 5e-324]
BOUNDS = [("0", "100"), ("-100", "100"), ("-25", "-4"), ("1", "99"), ("-0.5", "10.2"), ("7", "7")]
STEPS = ["1", "3", "10", "0.5", "0.1"]
TYPES = ["BIGINT", "HUGEINT", "DOUBLE"]


def cases() -> Iterator[tuple[str, tuple[str, str], str]]:
    for kind, bounds, step in product(["integer", "number"], BOUNDS, STEPS):
        if kind == "number" or not any("." in text for text in (*bounds, step)):
            yield kind, bounds, step


def column_of(kind: str, bounds: tuple[str, str], step: str, nulls: str) -> Any:
    spec = {"type": kind, "lower": bounds[0], "upper": bounds[1], "step": step, "fill": nulls}
    return declare({"v": spec}).table.columns["v"]


def expected_steps(
    column: IntegerColumn | NumberColumn, asked: Sum, value: float | None
) -> int | None:
    """Return the steps, computed with fractions; None for a dropped value."""
    lower, upper, step = Fraction(column.lower or 0), Fraction(column.upper or 0), asked.step
    if value is None:
        if column.fill_value is None:
            return None
        return min(max(round_half_away(column.fill_value / step), asked.lower), asked.upper)
    exact = Fraction(value) if math.isfinite(value) else (upper if value > 0 else lower)
    inside = min(max(exact, lower), upper)
    if isinstance(column, IntegerColumn):  # half up, counted from the lowest step
        low, high = asked.lower * step, asked.upper * step
        inside = min(max(inside, low), high)
        return int((inside - low + step.numerator // 2) // step) + asked.lower
    return min(max(round_half_away(inside / step), asked.lower), asked.upper)


def round_half_away(x: Fraction) -> int:
    """Return the nearest integer, halves away from zero."""
    return (1 if x >= 0 else -1) * math.floor(abs(x) + Fraction(1, 2))


@pytest.mark.parametrize(("kind", "bounds", "step"), list(cases()), ids=str)
def test_values_are_inside_the_bounds_in_every_type(
    kind: str, bounds: tuple[str, str], step: str
) -> None:
    """On the column's grid, and on a narrower one."""
    link = duckdb.connect()
    for nulls in ("drop", *bounds):
        column = column_of(kind, bounds, step, nulls)
        own = column.lattice
        middle = (own.lower + own.upper) // 2
        asks = [Sum("v", own.lower, own.upper, own.step), Sum("v", middle, middle + 1, own.step)]
        for asked, physical in product(asks, TYPES):
            values = VALUES if kind == "integer" or physical != "DOUBLE" else [*VALUES, *PARTS]
            typed = "HUGEINT" if kind == "integer" else physical  # as floats become integers
            listed = f"unnest(?::{typed}[]) AS g(v)"
            sql = f"SELECT {steps('v', asked.lattice, column, physical)} FROM {listed}"
            found = [row[0] for row in link.execute(sql, [values]).fetchall()]
            assert found == [expected_steps(column, asked, value) for value in values]
            known = [value for value in found if value is not None]
            assert asked.lower <= min(known) <= max(known) <= asked.upper
