"""Sums of products: sensitivity over all neighbours of small domains, and exact steps."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import floor
from typing import Any

import pyarrow as pa
import pytest

from dprelease.planning.treatments import treatment_record
from dprelease.privacy.unit import Neighbours
from dprelease.query.aggregates.product_sum import LARGEST_PRODUCT, ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.schema.number_bounds import Lattice
from tests.covering import thinned
from tests.exact.build import ask, declare, exact

RANGES = [(0, 3), (-2, 3), (-3, -1), (2, 2), (-1, 0)]


def sums(name: str, ends: tuple[int, int], *, centred: bool) -> Sum:
    found = Sum.of(name, Lattice(lower=ends[0], upper=ends[1], step=Fraction(1)))
    return found.centered_sum if centred else found


@pytest.mark.each
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("left", "right"), list(product(RANGES, repeat=2)))
def test_product_bounds_are_reached_and_not_exceeded(
    left: tuple[int, int], right: tuple[int, int], centred: bool
) -> None:
    a, b = sums("a", left, centred=centred), sums("b", right, centred=centred)
    products = [
        (x - a.center) * (y - b.center)
        for x in range(left[0], left[1] + 1)
        for y in range(right[0], right[1] + 1)
    ]
    found = ProductSum.of(a, b)
    assert (found.least, found.most, found.coarse) == (min(products), max(products), 1)
    squares = ProductSum.of(a, a)
    own = [(x - a.center) ** 2 for x in range(left[0], left[1] + 1)]
    assert (squares.least, squares.most) == (min(own), max(own))
    assert ProductSum.of(b, a) == found


@pytest.mark.parametrize("size", [1, 3, 2**12, 2**12 + 1, 10**9, 2**40, 2**61])
def test_coarse_products_are_monotone(size: int) -> None:
    """Wide bounds still have few steps, and their ends are the rounded corners."""
    a, b = sums("a", (-size, size), centred=False), sums("b", (0, size), centred=False)
    found = ProductSum.of(a, b)
    assert max(abs(found.least), found.most) <= LARGEST_PRODUCT
    assert size * size <= LARGEST_PRODUCT / 4 or found.most > LARGEST_PRODUCT / 4
    rounded = [
        floor(Fraction(p, found.coarse) + Fraction(1, 2)) for p in (-size * size, size * size)
    ]
    assert [found.least, found.most] == rounded
    assert found.step == found.coarse


COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "k": {"type": "category", "values": ["p", "q"]},
    "a": {"type": "integer", "lower": -2, "upper": 3, "missing": [1]},
    "b": {"type": "boolean"},
    "c": {"type": "integer", "lower": 0, "upper": 2, "fill": 1},
}
VALUES: dict[str, list[Any]] = {
    "a": [-9, 0, 1, 9, None],
    "b": [False, True, None],
    "c": [0, None, 7],
}
MEANT: dict[str, dict[Any, int | None]] = {
    "a": {-9: -2, 0: 0, 1: None, 9: 3, None: None},
    "b": {False: 0, True: 1, None: None},
    "c": {0: 0, None: 1, 7: 2},
}
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.string()),
        ("a", pa.int64()),
        ("b", pa.bool_()),
        ("c", pa.int64()),
    ]
)
PAIRS = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "b"), ("c", "c")]
UNITS: list[dict[str, Any]] = [
    {},
    {"id": "id", "max_groups": 1, "max_rows_per_group": 2},
    {"id": "id", "max_groups": 2, "max_rows_per_group": 1},
    {"id": "id", "max_rows": 2},
]


def found_of(query: Any, rows: list[dict[str, Any]]) -> list[int]:
    (name,) = (one.name for one in query.measurements)
    held: list[int] = exact(query, pa.Table.from_pylist(rows, schema=TYPES))[name].tolist()
    return held


@pytest.mark.share(0.5)
@pytest.mark.parametrize(
    ("pair", "unit", "neighbours"), thinned(PAIRS, UNITS, list(Neighbours), together=1), ids=str
)
def test_sensitivity_of_product_sums_is_exact(
    pair: tuple[str, str], unit: dict[str, Any], neighbours: Neighbours
) -> None:
    """All rows of one unit in all groups: missing values, codes, booleans, values to be clamped."""
    of, weight = pair
    declared = declare(COLUMNS, **({"privacy_unit": unit} if unit else {}))
    spec = {"s": {"weighted_sum": {"of": of, "weight": weight}}}
    query = ask(declared, spec, ["k"], neighbours=neighbours)
    values = {name: VALUES[name] for name in dict.fromkeys((of, weight))}
    held = [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    added = {}
    for i, row in enumerate(held):  # of each row alone, and against the meaning of its values
        meant = [MEANT[name][row[name]] for name in (of, weight)]
        added[i] = 0 if None in meant else meant[0] * meant[1]
        assert found_of(query, [{"id": 1, "k": "q", **row}]) == [0, added[i]]
    most = 1 if not unit else (2 if "max_rows" in unit else unit["max_rows_per_group"])
    cells = {0} | {
        sum(added[i] for i in rows)
        for n in range(1, most + 1)
        for rows in combinations_with_replacement(added, n)
    }
    gone = [0] if neighbours is Neighbours.ADD_REMOVE else sorted(cells)
    largest = max(abs(x - y) for x in cells for y in gone)
    (measurement,) = query.measurements
    sensitivity = measurement.sensitivity
    if len(unit) == 0 or neighbours is Neighbours.ADD_REMOVE or unit.get("max_groups") == 1:
        assert sensitivity.largest_shift == largest
    else:
        assert sensitivity.largest_shift >= largest


def test_products_of_wide_columns_are_exact_in_duckdb() -> None:
    wide = {"type": "integer", "lower": -(2**37), "upper": 2**37}
    heavy = {"type": "integer", "lower": 0, "upper": 2**38}
    query = ask(
        declare({"a": wide, "b": heavy}), {"s": {"weighted_sum": {"of": "a", "weight": "b"}}}
    )
    (measurement,) = query.measurements
    for a, b in product((-(2**37), -(2**36) - 1, -1, 0, 7, 2**37), (0, 1, 2**37 + 3, 2**38)):
        found = exact(query, pa.table({"a": [a], "b": [b]}))[measurement.name].tolist()
        coarse = measurement.aggregate.coarse  # type: ignore[attr-defined]
        assert found == [floor(Fraction(a * b, coarse) + Fraction(1, 2))]


def test_missing_value_rules_of_both_factors_are_recorded() -> None:
    query = ask(declare(COLUMNS), {"s": {"weighted_sum": {"of": "a", "weight": "c"}}})
    said = treatment_record(query).to_json()["columns"]
    assert "outside the bounds: clamped" in said["a"]
    assert "also 1" in said["a"]
    assert "missing: 1; outside the bounds: clamped" in said["c"]
