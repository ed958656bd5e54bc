"""A ratio uses the rows in which both sides are present."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.exact.build import ask, declare, exact

SIDES: dict[str, dict[str, Any]] = {
    "a": {"type": "integer", "lower": 0, "upper": 9},
    "b": {"type": "number", "lower": -2, "upper": 9, "step": "0.5"},
    "c": {"type": "number", "lower": 0, "upper": 9, "step": 1, "fill": 5},
    "d": {"type": "integer", "lower": 1, "upper": 90, "expression": "a * 2"},
}
VALUES: dict[str, list[Any]] = {
    "a": [3, None, 50], "b": [1.5, None, float("nan"), -9.0], "c": [2.0, None],
}  # fmt: skip
ROWS = [
    {"id": i % 5, "k": "xy"[i % 2], **dict(zip(VALUES, values, strict=True))}
    for i, values in enumerate(product(*VALUES.values()))
]


def _value(name: str, row: dict[str, Any]) -> float | None:
    """Return what a row adds: its value within the bounds, or what stands in for it."""
    if name == "d":
        return None if row["a"] is None else min(max(2 * min(row["a"], 10**9), 1), 90)
    value = row[name]
    if value is None or value != value:
        return SIDES[name].get("fill")
    return min(max(value, SIDES[name]["lower"]), SIDES[name]["upper"])


@pytest.mark.each
@pytest.mark.parametrize("unit", [{}, {"id": "id", "max_groups": 2, "max_rows_per_group": 99}])
@pytest.mark.parametrize(("over", "under"), list(product(SIDES, SIDES)))
def test_both_sides_of_a_ratio_use_the_same_rows(
    over: str, under: str, unit: dict[str, Any]
) -> None:
    keys = {"id": {"type": "integer"}, "k": {"type": "category", "values": ["x", "y"]}}
    declared = declare({**keys, **SIDES}, privacy_unit=unit)
    query = ask(declared, {"r": {"ratio": [over, under]}, "alone": {"sum": over}}, ["k"])
    found = exact(query, pa.Table.from_pylist(ROWS))
    (published,) = (column for column in query.columns if column.name == "r")
    for part, side in zip(published.parts, (over, under), strict=True):
        expected = np.zeros(2)
        for row in ROWS:
            both = [_value(name, row) for name in (over, under)]
            if None not in both:
                expected["xy".index(row["k"])] += _value(side, row) or 0
        assert (found[part.name] * float(part.step) == expected).all(), part.name
    # Where the other side is declared to count when it is missing, nothing needs to be said.
    said = [over != under and "fill" not in SIDES[other] for other in (under, over)]
    for part, other, beside in zip(published.parts, (under, over), said, strict=True):
        assert (f"in which '{other}' is not missing" in part.aggregate.description) is beside
    assert ("both present" in published.formula) is any(said)
    alone = sum(_value(over, row) or 0 for row in ROWS)
    (sums,) = (column for column in query.columns if column.name == "alone")
    assert found[sums.parts[0].name].sum() * float(sums.parts[0].step) == alone
