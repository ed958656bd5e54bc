"""Cells that contradict other published cells are refused, and every genuine table is accepted."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.replay import Keyed
from tests.verification.forging import seal

SCHEMA = """\
table: people
source: people.csv
columns:
  city: {type: category, values: [Bern, Oslo, Rome, Ulm]}
  age: {type: integer, lower: 0, upper: 100}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5}
  rent: {type: integer, lower: 0, upper: 2000}
  ok: {type: integer, lower: 0, upper: 1}
"""
RELEASE = """\
title: People by city
tables: [people.yaml]
budget: {epsilon: 100}
mechanism: discrete_laplace
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      n: {count: "*"}
      shown: {count: "*", suppress_below: 8, round_to: 5}
      low: {min: age}
      quarter: {quantile: {of: age, at: 0.25}}
      middle: {median: age}
      upper: {quantile: {of: age, at: 0.75}, interval: false}
      top: {max: age}
      total: {sum: pay}
      amounts: {count: pay}
      mean: {mean: pay, suppress_below: {people: 20}}
      spread: {stddev: pay}
      part: {mean: ok, margin: 90 %}
      rate: {ratio: [ok, age], suppress_below: {people: 20}}
      sure: {mean: age, suppress_above: 20 %, margin: 99 %}
      wide: {sum: rent, suppress_above: 20 %}
      few: {median: rent, suppress_below: {people: 20}}
output: out
"""
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release with two large cities, one with ten people, and an empty one."""
    folder = tmp_path_factory.mktemp("release")
    cities = ["Bern"] * 600 + ["Oslo"] * 500 + ["Rome"] * 10
    rows = [f"{city},{i * 7 % 90},{i * 3},{i % 2000},{i % 2}" for i, city in enumerate(cities)]
    (folder / "people.csv").write_text("\n".join(["city,age,pay,rent,ok", *rows, ""]))
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(RELEASE)
    return run(read_declaration(folder / "release.yaml"), bits=Keyed("cells"))


def forged(folder: Path, change: Change, name: str = "by_city.parquet") -> list[str]:
    """Change the columns of a table, seal all of it anew, and return the codes of findings."""
    path = folder / name
    table = pq.read_table(path)
    columns = table.to_pydict()
    change(columns)
    arrays = [pa.array(columns[field.name], field.type) for field in table.schema]
    pq.write_table(
        pa.table(arrays, schema=table.schema), path, compression="zstd", write_statistics=False
    )
    record = json.loads((folder / "manifest.json").read_bytes())
    for file in record["files"]:
        if file["name"] == name:
            file["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    seal(folder, record)
    return [finding.code for finding in verify(folder).findings]


def put(place: int, **values: object) -> Change:
    """Return a change of some columns of one row."""

    def change(columns: dict[str, Any]) -> None:
        for name, value in values.items():
            assert columns[name][place] != value, "the forgery changes nothing"
            columns[name][place] = value

    return change


def swap(one: str, other: str) -> Change:
    """Return a change that swaps two quantiles with all that is published about them."""

    def change(columns: dict[str, Any]) -> None:
        for ending in ("", "_lower", "_upper", "_quality"):
            a, b = f"{one}{ending}", f"{other}{ending}"
            columns[a], columns[b] = columns[b], columns[a]

    return change


def test_genuine_release_has_cells_of_all_kinds(published: Path) -> None:
    assert dprelease.verify(published).ok
    found = pq.read_table(published / "by_city.parquet").to_pydict()
    assert found["mean_quality"][2:] == found["few_quality"][2:] == ["few_people"] * 2
    assert found["rate_lower"][2:] == [None] * 2
    assert found["spread_quality"][3] == "unsure_divisor"
    assert found["wide"][3] is found["sure"][3] is None
    assert found["shown"][3] is None
    assert None not in found["middle"]
    quantiles = zip(*(found[name] for name in ("quarter", "middle", "upper")), strict=True)
    assert all(list(several) == sorted(several) for several in quantiles)
    assert forged_nothing(published)


def forged_nothing(published: Path) -> bool:
    """Return whether a copy that is written again, with the same cells, is accepted."""
    copy = Path(shutil.copytree(published, published.parent / "same"))
    return forged(copy, lambda _: None) == []


FORGERIES: dict[str, Change] = {
    "a quarter above the median": swap("quarter", "middle"),
    "a quantile without an interval out of order": put(0, upper=1),
    "a minimum above the median": put(0, low=90, low_upper=90),
    "a maximum below the median": put(0, top=3, top_lower=3),
    "a minimum at the upper bound": put(3, low=100, low_quality="D"),
    "a maximum at the lower bound": put(0, top=0, top_lower=0),
    "a minimum left empty without a reason": put(0, low=None, low_quality="undefined"),
    "at a bound, but within": put(0, spread_quality="at_bound"),
    "a mean at a bound, but within": put(0, mean_quality="at_bound"),
    "at a bound of another confidence": put(0, part_quality="at_bound"),
    "a better class than a narrower interval allows": put(0, part_lower=0.3),
    "class A at a bound": put(0, spread=0.0, spread_lower=0.0, spread_upper=0.0),
    "few people, but many": put(
        0, mean=None, mean_lower=None, mean_upper=None, mean_quality="few_people"
    ),
    "a median of few people": put(2, few=7, few_lower=5, few_upper=9, few_quality="D"),
    "a ratio of few people": put(2, rate=0.5, rate_lower=0.4, rate_upper=0.6, rate_quality="C"),
    "an interval of few people": put(2, rate_lower=0.4, rate_upper=0.6),
    "a count below its own limit": put(2, shown=5),
    "another count of the same rows": put(0, shown=700),
    "a mean of another sum": put(0, mean=1.0, mean_lower=0.5, mean_upper=1.5, mean_quality="D"),
    "an unsure divisor, but sure": put(0, spread=None, spread_quality="unsure_divisor"),
    "a spread of nobody": put(3, spread=9.0, spread_quality="D"),
    "a sum whose margin is too wide": put(3, wide=2000, wide_quality="D"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_cells_are_found(name: str, published: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(published, tmp_path / "copy"))
    assert forged(copy, FORGERIES[name]) == ["DP-VERIFY-006"]


SQL = (
    "SELECT city, COUNT(*) AS n, AVG(pay) AS mean, MEDIAN(age) AS middle FROM people GROUP BY city"
)


def test_forged_cells_of_sql_releases_are_found(published: Path, tmp_path: Path) -> None:
    folder = tmp_path / "answer"
    dprelease.sql(SQL, [published.parent / "people.yaml"], epsilon="20", output=folder)
    assert verify(folder).findings == []
    (name,) = (path.name for path in folder.glob("*.parquet"))
    assert forged(folder, put(0, middle=101), name) == ["DP-VERIFY-006"]


@pytest.mark.each
@pytest.mark.parametrize("key", range(6))
@pytest.mark.parametrize("epsilon", ["0.5", "3", "20"])
def test_genuine_tables_are_accepted(
    key: int, epsilon: str, published: Path, tmp_path: Path
) -> None:
    """With little and with much noise, where cells of all kinds contradict each other."""
    for name in ("people.csv", "people.yaml"):
        shutil.copy(published.parent / name, tmp_path)
    path = tmp_path / "release.yaml"
    path.write_text(RELEASE.replace("epsilon: 100", f"epsilon: {epsilon}"))
    folder = run(read_declaration(path), bits=Keyed(f"genuine {key} {epsilon}"))
    assert verify(folder).findings == []
