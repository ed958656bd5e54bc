"""Shares, differences, ratios and changes of a published release, in every library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dprelease
from dprelease.errors import QueryError, UsageError
from dprelease.postprocess.margins import margin_factor, share_estimates
from dprelease.verification.after_publication.changes import compare
from dprelease.verification.after_publication.release_tables import read_release_tables
from tests.verification.test_changes import publish

SCHEMA = """\
table: people
source: people.csv
columns:
  year: {type: integer, lower: 2020, upper: 2023}
  sex: {type: category, values: [f, m]}
  income: {type: integer, lower: 0, upper: 1000}
  debt: {type: integer, lower: -100, upper: 100}
"""
RELEASE = """\
title: People
tables: [people.yaml]
budget: {epsilon: 40}
mechanism: laplace
queries:
  by_year:
    from: people
    group_by: [year, sex]
    columns:
      n: {count: "*"}
      income: {sum: income}
      debt: {sum: debt}
      rounded: {count: "*", round_to: 10}
  totals: {from: people, group_by: [year], columns: {n: {count: "*"}}}
output: out
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dprelease.PublishedRelease:
    folder = tmp_path_factory.mktemp("cells")
    rng = np.random.default_rng(1)
    kinds = {"year": rng.integers(2020, 2024, 3000), "sex": rng.choice(["f", "m"], 3000)}
    numbers = {"income": rng.integers(0, 1000, 3000), "debt": rng.integers(-100, 100, 3000)}
    pd.DataFrame({**kinds, **numbers}).to_csv(folder / "people.csv", index=False)
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(RELEASE)
    return dprelease.PublishedRelease(dprelease.run(folder / "release.yaml").folder)


@pytest.mark.parametrize(("column", "step"), [("n", 1.0), ("income", 1.0)])
@pytest.mark.parametrize("within", [(), "year", ["year"], ["sex"]])
def test_shares_follow_from_the_published_noise(
    published: dprelease.PublishedRelease, column: str, step: float, within: Any
) -> None:
    """Their intervals are those of `share_estimates`, whose coverage is tested with it."""
    found = published.share(column, within=within, table="by_year")
    table = published.to_pandas("by_year")
    names = [within] if isinstance(within, str) else list(within)
    group = table.groupby(names).ngroup().to_numpy() if names else np.zeros(len(table), int)
    columns = read_release_tables(published.path).columns
    (noise,) = [
        one.mechanism
        for one in columns
        if (one.query.name, one.measurement.name) == ("by_year", column)
    ]
    expected = share_estimates(table[column].to_numpy(float), group, margin_factor(noise) * step)
    assert found["share"].to_numpy() == pytest.approx(expected.values)
    assert found["lower"].to_numpy() == pytest.approx(expected.lower)
    assert found["upper"].to_numpy() == pytest.approx(expected.upper)
    assert list(found.columns) == ["year", "sex", "share", "lower", "upper"]
    sums = found.groupby(names)["share"].sum() if names else pd.Series([found["share"].sum()])
    assert sums.to_numpy() == pytest.approx(1.0)


def test_shares_of_some_cells(published: dprelease.PublishedRelease) -> None:
    found = published.share("n", table="by_year", cells={"sex": "f"})
    assert list(found["year"]) == [2020, 2021, 2022, 2023]
    assert found["share"].sum() == pytest.approx(1.0)
    assert len(published.share(table="totals")) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"column": "rounded", "table": "by_year"}, "not a single noisy number"),
        ({"column": "debt", "table": "by_year"}, "may be negative"),
        ({"column": "nothing", "table": "by_year"}, "no column of numbers"),
        ({"table": "by_year"}, "no column is named"),
        ({"column": "n", "table": "by_year", "within": "city"}, "not one of the keys"),
    ],
)
def test_impossible_shares_are_refused(
    published: dprelease.PublishedRelease, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(QueryError, match=f"(?s)DP-COMPARE-003.*{words}"):
        published.share(**arguments)


def test_differences_and_ratios_equal_compare(
    published: dprelease.PublishedRelease,
) -> None:
    cells = {"cells": {"sex": "m"}, "other_cells": {"sex": "f"}}
    known = compare(
        published.path, published.path, table="by_year",
        old_cells={"sex": "f"}, new_cells={"sex": "m"},
    )  # fmt: skip
    found = published.difference(table="by_year", **cells)
    assert list(found.columns) == [
        "year", "column", "value", "other", "difference", "lower", "upper", "confidence",
    ]  # fmt: skip
    assert found["difference"].equals(known["change"].rename("difference"))
    assert (found["value"] - found["other"] == found["difference"]).all()
    assert ((found["lower"] < found["difference"]) & (found["difference"] < found["upper"])).all()
    ratio = published.ratio(table="by_year", **cells)
    kept = ratio["ratio"].notna()
    assert (ratio["value"] / ratio["other"])[kept].to_numpy() == pytest.approx(
        ratio["ratio"][kept].to_numpy()
    )
    assert ((ratio["lower"] <= ratio["ratio"]) & (ratio["ratio"] <= ratio["upper"]))[kept].all()


def test_changes_along_a_key(published: dprelease.PublishedRelease) -> None:
    found = published.change(along="year", table="by_year")
    assert list(found.columns)[:3] == ["year", "sex", "column"]
    assert sorted(set(found["year"])) == [2021, 2022, 2023]
    for year in (2021, 2022, 2023):
        known = compare(
            published.path, published.path, table="by_year",
            old_cells={"year": year - 1}, new_cells={"year": year},
        )  # fmt: skip
        part = found[found["year"] == year].drop(columns="year").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, known)
    women = published.change(along="year", table="by_year", cells={"sex": "f"})
    assert len(women) == 3 * 4
    assert "sex" not in women


def test_changes_since_another_release(tmp_path: Path) -> None:
    folders = [publish(tmp_path, year) for year in (1, 2)]
    old, new = map(dprelease.PublishedRelease, folders)
    known = compare(*folders, table="by_sex")
    for since in (old, folders[0], str(folders[0])):
        pd.testing.assert_frame_equal(new.change(since, table="by_sex"), known)
    difference = new.difference(old, table="by_sex", cells={"sex": "f"}, other_cells={"sex": "f"})
    of_women = known[known["sex"] == "f"]["change"].to_numpy()
    assert difference["difference"].to_numpy() == pytest.approx(of_women)
    family = new.ratio(old, table="estimates/family_sex")
    assert (family["lower"] < family["upper"]).all()


@pytest.mark.parametrize(
    "ask",
    [
        lambda one, library: one.share("n", table="by_year", library=library),
        lambda one, library: one.change(along="year", table="by_year", library=library),
        lambda one, library: one.difference(
            table="by_year", cells={"sex": "m"}, other_cells={"sex": "f"}, library=library
        ),
        lambda one, library: one.ratio(
            table="by_year", cells={"sex": "m"}, other_cells={"sex": "f"}, library=library
        ),
    ],
)
def test_frames_of_every_library(
    published: dprelease.PublishedRelease, ask: Callable[[Any, str], Any]
) -> None:
    in_pandas, in_polars, in_arrow = (
        ask(published, library) for library in ("pandas", "polars", "pyarrow")
    )
    assert isinstance(in_pandas, pd.DataFrame)
    assert isinstance(in_polars, pl.DataFrame)
    assert isinstance(in_arrow, pa.Table)
    assert list(in_pandas.columns) == in_polars.columns == in_arrow.column_names
    assert len(in_pandas) == len(in_polars) == len(in_arrow)


@pytest.mark.parametrize(
    ("ask", "kind", "code"),
    [
        (lambda one: one.change(), UsageError, "DP-SESSION-016"),
        (lambda one: one.change("x", along="year"), UsageError, "DP-SESSION-016"),
        (lambda one: one.change(along="city", table="by_year"), QueryError, "DP-COMPARE-002"),
        (lambda one: one.difference(3), UsageError, "DP-SESSION-016"),
        (lambda one: one.difference(table="by_year"), UsageError, "DP-SESSION-016"),
        (
            lambda one: one.ratio(table="by_year", cells={"sex": "mm"}, other_cells={"sex": "f"}),
            QueryError,
            "did you mean",
        ),
        (lambda one: one.share("n", library="numpy"), UsageError, "DP-SESSION-016"),
        (lambda one: one.share("n"), QueryError, "DP-COMPARE-001"),
        (lambda one: one.share("n", table="by_year", cells={"sex": [1]}), QueryError, "-002"),
        (lambda one: one.share("n", table="by_year", cells={3: object()}), QueryError, "-002"),
    ],
)
def test_wrong_comparison_arguments_are_refused(
    published: dprelease.PublishedRelease, ask: Callable[[Any], Any], kind: type, code: str
) -> None:
    with pytest.raises(kind, match=code):
        ask(published)


@pytest.mark.parametrize("kind", [str, pd.Timestamp, np.datetime64, date.fromisoformat])
def test_cells_selected_by_day(kind: Callable[[str], object], tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=3).repeat([100, 200, 300])
    columns = {"day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03"}}
    release = dprelease.Release(
        {
            "title": "Days",
            "tables": [{"table": "t", "source": days.to_frame(name="day"), "columns": columns}],
            "budget": {"epsilon": 50},
            "queries": {"q": {"from": "t", "group_by": ["day"], "columns": {"n": {"count": "*"}}}},
            "output": "out",
        },
        folder=tmp_path,
    )
    published = dprelease.PublishedRelease(release.run())
    found = published.difference(
        cells={"day": kind("2024-01-02")}, other_cells={"day": kind("2024-01-01")}
    )
    assert abs(found["difference"].item() - 100) <= 2
