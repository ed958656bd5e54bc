"""Custom areas have means, ratios and centred sums of their parts, with margins."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.consistency.estimates import first_pass, pieces
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent.derived import DerivedColumn, derived_columns
from dprelease.postprocess.consistent.family_shape import Shape
from tests.release.area_family import TOWNS, publish_family, read_family

NAMES = [town for some in TOWNS.values() for town in some]
LARGE = "epsilon: 4, delta: 1e-6"
SMALL = "epsilon: 0.05, delta: 1e-6"
CASES = {
    "all parts shown": (
        "{n: {count: pay}, pay: {sum: pay}, mean: {mean: pay, margin: 0.9}}",
        LARGE,
    ),
    "hidden parts": ("{mean: {mean: pay, margin: 0.9}}", LARGE),
    "hidden divisors": ("{part: {ratio: [pay, age], margin: true}, n: {count: '*'}}", LARGE),
    "no margin": ("{n: {count: '*'}, part: {ratio: [pay, age]}, mean: {mean: age}}", LARGE),
    "centred sums": ("{mean: {mean: pay}, pay: {sum: pay, margin: 0.8}}", LARGE),
    "divisors near 0": ("{mean: {mean: pay, margin: 0.9}, n: {count: pay}}", SMALL),
}


def columns_of(folder: Path, columns: str, budget: str) -> dict[str, DerivedColumn]:
    declaration = read_family(folder, columns=columns, budget=budget)
    (family,) = prepare(declaration)[1].families
    return {one.name: one for one in derived_columns(Shape.of(family.tables))}


@pytest.mark.share(0.2)
@pytest.mark.parametrize("what", CASES)
def test_areas_of_a_level_equal_derived_tables(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States drawn by hand have the derived values, errors and margins that the release has.

    Whatever is published of what these are computed from, and whatever pieces it is made in.
    """
    columns, budget = CASES[what]
    parts = "{publish: {partition: state}}"
    consistent = parts if what in ("hidden parts", "no margin") else "true"
    given = {"columns": columns, "budget": budget, "least": "10", "step": "0.25"}
    folder = publish_family(tmp_path, consistent=consistent, **given)
    for held in (pieces, first_pass):  # the last default is how many cells a piece may have
        monkeypatch.setattr(held, "__defaults__", (*(held.__defaults__ or ())[:-1], 1))
    drawn = {"town": NAMES, "area": [state for state, some in TOWNS.items() for _ in some]}
    found = dprelease.areas(folder, drawn)
    unknown = 0
    for table, keys in (("pop_state", []), ("pop_state_sex", ["sex"]),
                        ("pop_state_band_sex", ["sex", "band"])):  # fmt: skip
        left = [key for key in ("sex", "band") if key not in keys]
        rows = found[found[left].isna().all(axis=1) & found[keys].notna().all(axis=1)]
        held = pq.read_table(folder / f"estimates/{table}.parquet").to_pandas()
        order = ["area", *keys]
        rows = rows.set_index(order).sort_index()
        held = held.rename(columns={"state": "area"}).set_index(order).sort_index()
        for name in (column for column in held.columns if column not in left):
            if name.endswith("_quality"):
                assert (rows[name] == held[name]).mean() > 0.9  # some lie at a limit
                continue
            one, other = rows[name].to_numpy(), held[name].to_numpy(dtype=float)
            ends = name.endswith(("_moe", "_lower", "_upper"))
            near, off = (1e-3, 1e-3) if ends else (2e-6, 1e-9)
            np.testing.assert_allclose(one, other, rtol=near, atol=off, err_msg=name)
            unknown += int(np.isnan(other).sum())
            if name.endswith("_moe"):  # of what fixed point may have moved, too
                assert not (one < other * (1 - 1e-9)).any()
    assert unknown or what != "divisors near 0"


def test_derived_values_of_any_areas(tmp_path: Path) -> None:
    """Areas of parts of leaves, over states: a sum of leaves by hand, in every cell."""
    columns = "{n: {count: pay}, pay: {sum: pay, margin: 0.9}, mean: {mean: pay, margin: 0.9}}"
    folder = publish_family(tmp_path, columns=columns, budget=LARGE)
    share = {"Uster": 1.0, "Thun": 0.25, "Bern": 1.0}
    drawn = pd.DataFrame({"leaf": list(share), "area": "A", "share": list(share.values())})
    found = dprelease.areas(folder, drawn)
    assert list(found.columns) == [
        "area", "sex", "band", "n", "n_se", "n_moe", "n_quality",
        "pay", "pay_se", "pay_moe", "pay_quality",
        "mean", "mean_se", "mean_lower", "mean_upper", "mean_quality",
    ]  # fmt: skip
    mean = columns_of(tmp_path / "again", columns, LARGE)["mean"]
    quantile = mean.quantile
    for _, row in found.iterrows():
        # pay = s + 50 c, so s is known; its error follows from those of pay and n.
        s, c, error_c = row["pay"] - 50 * row["n"], row["n"], row["n_se"]
        error_s = math.sqrt(row["pay_se"] ** 2 - (50 * error_c) ** 2)
        if math.isnan(row["mean"]):
            assert abs(c) <= 1.001 * quantile * error_c
            continue
        r = s / c
        assert row["mean"] == pytest.approx(min(max(50 + r, 0), 100), rel=1e-9)
        first = math.sqrt(error_s**2 + (r * error_c) ** 2) / abs(c)
        assert row["mean_se"] == pytest.approx(first, rel=1e-6)
        ends = np.roots([
            c**2 - (quantile * error_c) ** 2, -2 * s * c, s**2 - (quantile * error_s) ** 2
        ])  # fmt: skip
        low, high = np.clip(np.sort(ends) + 50, 0, 100)
        if 0 < row["mean"] < 100:
            assert (row["mean_lower"], row["mean_upper"]) == pytest.approx((low, high), rel=1e-3)
        assert row["mean_lower"] <= row["mean"] <= row["mean_upper"]
    assert found["mean"].notna().sum() >= 3


def test_margins_cover_fixed_point_rounding(tmp_path: Path) -> None:
    """Outside of an interval nothing is as near as both errors and both roundings allow."""
    columns = "{mean: {mean: pay, margin: 0.9}, pay: {sum: pay, margin: 0.9}}"
    found = columns_of(tmp_path, columns, LARGE)
    rng = np.random.default_rng(11)
    for name in ("mean", "pay"):
        one = found[name]
        over, under = (part.measurement.name for part in one.parts)
        q = one.quantile
        for ratio in (0.0, 1e-6, 0.1, 3.0):
            for which in (0, 1, 2):
                e = rng.uniform(0.5, 4.0, 2) * (1.0 if which < 2 else np.array([0.0, 1.0]))
                a = ratio * rng.uniform(0.1, 1.0, 2) * (np.array([1.0, 0.0]) if which else 1.0)
                s, c = float(rng.normal(0, 500)), float(rng.uniform(200, 900))
                estimates = {over: (np.array([s]), e[:1]), under: (np.array([c]), e[1:])}
                made = one.within(estimates, {over: float(a[0]), under: float(a[1])})
                width, value = float(made[f"{name}_moe"][0]), float(made[name][0])
                plain = one.with_margin(estimates)
                assert value == plain[name][0]
                assert made[f"{name}_se"] == plain[f"{name}_se"]
                if ratio == 0:
                    assert width == plain[f"{name}_moe"][0]
                if name == "pay":
                    wide = q * math.hypot(e[0], 50 * e[1]) + a[0] + 50 * a[1]
                    assert wide <= width * (1 + 1e-12)
                    continue
                for r in (s / c - width, s / c + width):
                    most = q * math.hypot(e[0], r * e[1]) + a[0] + abs(r) * a[1]
                    assert abs(s - r * c) >= most * (1 - 1e-9)
