"""`max_sum` in `df.dp`: as in a release file, and with less noise; `crosstab` has no margins."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dprelease
from dprelease.errors import DpReleaseError

SCHEMA: dict[str, Any] = {
    "table": "purchases",
    "privacy_unit": {"id": "customer", "max_groups": 2, "max_rows_per_group": 10},
    "columns": {
        "customer": {"type": "integer"},
        "shop": {"type": "category", "values": ["a", "b"]},
        "kind": {"type": "category", "values": ["x", "y"]},
        "amount": {"type": "integer", "lower": 0, "upper": 1000},
    },
}
ROWS = [(1, "a", "x", 100), (1, "a", "y", 300), (2, "a", "x", 50), (2, "b", "x", 700)]


def test_sums_are_clipped_per_person_and_cell() -> None:
    df = pd.DataFrame(ROWS, columns=["customer", "shop", "kind", "amount"])
    session = dprelease.Session(SCHEMA, epsilon=10**9)
    df.dp.use(session)
    options: dict[str, Any] = {"max_sum": 200, "epsilon": 100}
    clipped = pytest.approx([250, 200], abs=95)  # noise of a scale of 4; 450 and 700 otherwise
    assert df.dp.sum("amount", by="shop", **options)["value"].tolist() == clipped
    groups = df.dp.groupby("shop")
    assert groups.sum("amount", **options)["amount"].tolist() == clipped
    assert groups["amount"].sum(**options).tolist() == clipped
    margins = [
        df.dp.explain("sum", "amount", epsilon=1, **more)["margin"].iloc[0]
        for more in ({}, {"max_sum": 200})
    ]
    assert margins[1] < margins[0] / 10
    for wrong in (0, -5, "x", True, 0.5):
        with pytest.raises(DpReleaseError):
            df.dp.sum("amount", max_sum=wrong, epsilon=1)


def test_crosstab_has_no_margins_of_error() -> None:
    df = pd.DataFrame(ROWS, columns=["customer", "shop", "kind", "amount"])
    session = dprelease.Session(SCHEMA, epsilon=10**9)
    df.dp.use(session)
    found = df.dp.crosstab("shop", "kind", epsilon=100)
    assert found.to_numpy().ravel().tolist() == pytest.approx([2, 1, 1, 0], abs=4)
    assert "moe" not in str(found.columns)
