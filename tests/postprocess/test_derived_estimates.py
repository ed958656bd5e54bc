"""Means, ratios and centred sums of a family: their parts, errors, and missing values."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent.derived import DerivedColumn, derived_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.query.quality import CODES
from tests.release.area_family import publish_family, read_family

COLUMNS = (
    "{n: {count: pay}, pay: {sum: pay, margin: 0.9}, mean: {mean: pay, margin: 0.9}, "
    "part: {ratio: [pay, age], margin: true}}"
)


def derived_estimates(folder: Path) -> dict[str, DerivedColumn]:
    declaration = read_family(folder, columns=COLUMNS)
    _, plan = prepare(declaration)
    (family,) = plan.families
    return {one.name: one for one in derived_columns(Shape.of(family.tables))}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("consistent", ["true", "{non_negative: true}"])
def test_derived_estimates_follow_from_published_parts(consistent: str, tmp_path: Path) -> None:
    """The mean times the count is the sum, up to rounding; integer tables have no means."""
    folder = publish_family(
        tmp_path, columns=COLUMNS, consistent=consistent, budget="epsilon: 4, delta: 1e-6"
    )
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    seen = 0
    for path in sorted((folder / "estimates").glob("*.parquet")):
        held = pq.read_table(path).to_pandas()
        assert list(held.columns)[-17:] == [
            "n", "n_se", "n_quality", "pay", "pay_se", "pay_moe", "pay_quality",
            "mean", "mean_se", "mean_lower", "mean_upper", "mean_quality",
            "part", "part_se", "part_lower", "part_upper", "part_quality",
        ]  # fmt: skip
        known = held.dropna(subset=["mean"])
        inside = known[(known["mean"] > 0) & (known["mean"] < 100)]
        total = (inside["mean"] * inside["n"]).tolist()
        assert total == pytest.approx(inside["pay"].tolist(), rel=1e-9, abs=1e-6)
        assert known["mean"].between(known["mean_lower"], known["mean_upper"]).all()
        assert held["mean_lower"].between(0, 100).all()  # an interval in every cell
        assert held["mean_upper"].between(0, 100).all()
        assert held["part"].isna().equals(held["part_se"].isna())
        unsure = held["mean_quality"] == "unsure_divisor"
        assert unsure.equals(held["mean"].isna())
        assert not (held["mean_lower"] == held["mean_upper"])[unsure].any()
        seen += len(known)
    assert seen > 20
    for path in (folder / "tables").glob("*.parquet"):
        assert not {"mean", "pay", "part"} & set(pq.read_schema(path).names)
        assert "n" in pq.read_schema(path).names


def test_errors_of_derived_estimates_match_simulation(tmp_path: Path) -> None:
    """With normal parts: first-order standard errors, and coverage of Fieller's intervals."""
    rng = np.random.default_rng(3)
    draws, confidence = 200_000, 0.9
    found = derived_estimates(tmp_path)
    mean, quantile = found["mean"], found["mean"].quantile
    assert quantile >= NormalDist().inv_cdf(0.95)
    total, count = (part.measurement.name for part in mean.parts)
    for truth, errors, first_order in (
        ((300.0, 90.0), (12.0, 2.0), True),
        ((40.0, 6.0), (12.0, 2.0), False),
    ):
        s = rng.normal(truth[0], errors[0], draws)
        c = rng.normal(truth[1], errors[1], draws)
        made = mean.values({
            total: (s, np.full(draws, errors[0])), count: (c, np.full(draws, errors[1]))
        })  # fmt: skip
        center = made["mean"] - np.clip(s / c + 50, 0, 100)
        known = ~np.isnan(made["mean"])
        assert np.nanmax(np.abs(center)) < 1e-9
        assert known.tolist() == (c > quantile * errors[1]).tolist()  # a count is not below 0
        if first_order:
            exact = np.std(s / c)
            assert np.nanmean(made["mean_se"]) == pytest.approx(exact, rel=0.02)
        target = 50 + truth[0] / truth[1]
        holds = (made["mean_lower"] <= target) & (target <= made["mean_upper"])
        least = confidence - 6 * (confidence * (1 - confidence) / draws) ** 0.5
        assert holds.sum() >= least * draws
        assert holds[~known].all()  # the interval is all that is possible
        inside = (made["mean_lower"] <= made["mean"]) & (made["mean"] <= made["mean_upper"])
        assert inside[known].all()


def test_centred_sums_have_exact_standard_errors(tmp_path: Path) -> None:
    found = derived_estimates(tmp_path)["pay"]
    total, count = (part.measurement.name for part in found.parts)
    made = found.values({
        total: (np.array([-30.0]), np.array([3.0])), count: (np.array([10.0]), np.array([0.5]))
    })  # fmt: skip
    assert made["pay"].tolist() == [-30 + 50 * 10]
    exact = Fraction(3) ** 2 + (50 * Fraction(1, 2)) ** 2
    assert made["pay_se"][0] ** 2 == pytest.approx(float(exact), rel=1e-11)
    assert made["pay_se"][0] ** 2 >= float(exact)


def test_divisors_near_zero_have_only_an_interval(tmp_path: Path) -> None:
    """No quotient and no standard error, but an interval; no number raises an error."""
    part = derived_estimates(tmp_path)["part"]
    over, under = (one.measurement.name for one in part.parts)
    s = np.array([5.0, 5.0, 0.0, 1e18, -1e18, np.nan])
    for c in (0.0, -0.0, 1e-300, -1.0):
        made = part.values({over: (s, np.ones(6)), under: (np.full(6, c), np.full(6, 2.0))})
        assert np.isnan(made["part"]).all()
        assert np.isnan(made["part_se"]).all()
        assert (made["part_lower"] == part.ends[0]).all()
        assert (made["part_upper"] == part.ends[1]).all()
        assert {CODES[code] for code in made["part_quality"]} == {"unsure_divisor"}
    made = part.values({over: (s, np.ones(6)), under: (np.full(6, 1e6), np.full(6, 2.0))})
    assert np.isfinite(made["part"][:5]).all()
    exact = part.values({over: (np.zeros(1), np.zeros(1)), under: (np.zeros(1), np.zeros(1))})
    assert CODES[exact["part_quality"][0]] == "undefined"  # certainly no rows
