"""Suppressed cells reveal nothing about their value, in any format and in rehearsals."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

import dprelease
from dprelease.rehearsal.error_summary import within_interval
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.release.build import write
from tests.replay import Keyed

RELEASE = """\
title: Codes
tables: [people.yaml]
budget: {epsilon: 30}
mechanism: discrete_laplace
formats: [csv, excel, json-stat, px, datapackage, sdmx-csv]
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      persons: {count_distinct: person}
      age: {mean: age, suppress_below: {people: 30}}
      rate: {ratio: [pay, age], suppress_below: {people: 30}}
      spread: {stddev: age, suppress_below: {people: 30}}
      middle: {median: age, suppress_below: {people: 30}}
      least: {min: age, suppress_below: {people: 30}}
      wide: {median: age, suppress_above: 1 %}
output: out/suppressed
"""
RULED = ("age", "rate", "spread", "middle", "least")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release in which one city has 50 people, one has 20, and one has nobody."""
    folder = tmp_path_factory.mktemp("suppressed")
    cities = ["Bern"] * 50 + ["Oslo"] * 20
    path = write(folder, [f"{i},{city},{20 + i % 50},{i}.0\n" for i, city in enumerate(cities)])
    path.write_text(RELEASE)
    return run(read_declaration(path), bits=Keyed("suppressed"))


def test_suppressed_cells_have_no_interval(release: Path) -> None:
    found = pq.read_table(release / "by_city.parquet").to_pydict()
    for name in RULED:
        assert found[f"{name}_quality"][1:] == ["few_people", "few_people"]
        for ending in ("", "_lower", "_upper"):
            first, *others = found[f"{name}{ending}"]
            assert first is not None
            assert others == [None, None]
    assert found["wide_quality"] == ["unreliable"] * 3
    assert found["wide_lower"] == found["wide_upper"] == [None] * 3
    assert dprelease.verify(release).ok


def test_no_format_shows_suppressed_values(release: Path) -> None:
    """CSV has empty fields, JSON-stat null, and workbooks have signs."""
    hidden = {f"{name}{end}" for name in RULED for end in ("", "_lower", "_upper")}
    with (release / "csv/by_city.csv").open(newline="", encoding="utf-8-sig") as file:
        shown, *others = csv.DictReader(file)
    assert all(shown[name] for name in hidden)
    assert not any(row[name] for row in others for name in hidden)
    with (release / "sdmx-csv/by_city.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.DictReader(file) if row["QUALITY"] == "few_people"]
    assert len(rows) == 2 * len(RULED)
    assert not any(row[name] for row in rows for name in ("OBS_VALUE", "LOWER_BOUND"))
    cube = json.loads((release / "json-stat/by_city.json").read_text())
    assert cube["value"].count(None) == 2 * len(hidden) + 3 * 3
    assert (release / "px/by_city.px").read_text().count(' "....."') >= 2 * len(hidden)
    sheets = load_workbook(release / "excel/release.xlsx").worksheets
    cells = [cell.value for sheet in sheets for row in sheet.iter_rows() for cell in row]
    assert cells.count("[c]") >= 2 * len(hidden)


def test_cells_without_an_interval_are_not_covered() -> None:
    nan = np.nan
    exact = np.array([1.0, 1.0, 1.0, nan])
    lower, upper = np.array([0.0, nan, nan, 0.0]), np.array([2.0, 0.5, nan, 2.0])
    assert np.array_equal(
        within_interval(exact, lower, upper), [1.0, 0.0, nan, nan], equal_nan=True
    )
