"""The quality of family values, recomputed from published numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent.family_columns import consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from tests.release.area_family import publish_family, read_family

Row = dict[str, Any]
LIMITS = {"A": 0.05, "B": 0.15, "C": 0.30}


def code(value: float, width: float) -> str:
    """Return the code of a value by the largest limit that its margin of error is within."""
    if math.isnan(width):
        return "D"
    return next((one for one, most in LIMITS.items() if width <= most * abs(value)), "D")


def is_near_a_limit(value: float, width: float) -> bool:
    return any(math.isclose(width, most * abs(value), rel_tol=1e-5) for most in LIMITS.values())


@pytest.mark.share(0.2)
@pytest.mark.parametrize("margin", ["", ", margin: true", ", margin: 0.9"])
@pytest.mark.parametrize("consistent", ["true", "{non_negative: true}"])
def test_family_quality_follows_from_published_numbers(
    margin: str, consistent: str, tmp_path: Path
) -> None:
    """For estimates from standard errors, for integers from intervals, always at 95 %."""
    columns = f'{{n: {{count: "*"{margin}}}, total: {{sum: pay}}, mean: {{mean: pay{margin}}}}}'
    asked = {"columns": columns, "consistent": consistent, "budget": "epsilon: 4, delta: 1e-6"}
    folder = publish_family(tmp_path / "run", **asked)
    assert dprelease.verify(folder).ok
    (family,) = prepare(read_family(tmp_path / "again", **asked))[1].families
    found = {one.name: one.vector.quality_quantile for one in
             consistent_columns(Shape.of(family.tables))}  # fmt: skip
    seen: set[str] = set()
    for path in sorted(folder.glob("*/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            if path.parent.name == "estimates":
                width = found["n"] * row["n_se"]
                assert row["n_quality"] == code(row["n"], width) or is_near_a_limit(row["n"], width)
                seen |= {row["n_quality"]}
                if margin != ", margin: 0.9":
                    seen |= {check_mean(row)}
            elif path.parent.name == "tables" and margin != ", margin: 0.9":
                width = max(row["n"] - row["n_lower"], row["n_upper"] - row["n"])
                zero = row["n"] == 0 and row["n_quality"] == "at_bound"
                assert zero or row["n_quality"] == code(row["n"], width)
                assert row["n"] or row["n_quality"] in ("at_bound", "A")
                seen |= {row["n_quality"]}
    assert {"A", "D"} & seen
    assert len(seen) >= 3


def check_mean(row: Row) -> str:
    """Return the quality of a mean, which its interval must confirm."""
    quality = str(row["mean_quality"])
    assert 0 <= row["mean_lower"] <= row["mean_upper"] <= 100
    if row["mean"] is None:
        assert quality == "unsure_divisor"
    elif row["mean"] in (0, 100):
        assert quality == "at_bound"
    else:
        width = max(row["mean"] - row["mean_lower"], row["mean_upper"] - row["mean"])
        assert quality == code(row["mean"], width) or is_near_a_limit(row["mean"], width)
    return quality


def test_family_quality_is_optional(tmp_path: Path) -> None:
    """For single columns, or for all; means keep their intervals."""
    columns = '{n: {count: "*", quality: false}, mean: {mean: pay, quality: false}}'
    folder = publish_family(tmp_path, columns=columns)
    for path in folder.glob("estimates/*.parquet"):
        names = pq.read_schema(path).names
        assert not [name for name in names if name.endswith("_quality")]
        assert names[-4:] == ["mean", "mean_se", "mean_lower", "mean_upper"]
