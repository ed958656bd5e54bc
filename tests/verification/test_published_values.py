"""Impossible values, margins and labels in resealed files are found."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.replay import Keyed
from tests.verification.forging import seal

SCHEMA = """\
table: people
source: people.csv
columns:
  city: {type: category, values: [Bern, Oslo, Rome]}
  age: {type: integer, lower: 0, upper: 120}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5}
"""
RELEASE = """\
title: People by city
tables: [people.yaml]
budget: {epsilon: 12}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      n: {count: "*", margin: true, non_negative: true}
      few: {count: age, suppress_below: 5}
      pay: {sum: pay, round_to: 10, margin: true}
      coded: {count: "*", bottom_code: 7, top_code: 55, labels: true, round_to: 10}
      mid: {median: age}
      low: {min: age}
      few_low: {max: age, interval: false}
      usual: {mode: city}
      each: {mean: pay, margin: true}
output: out
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    rows = [f"{['Bern', 'Oslo'][i % 2]},{i % 100},{i}" for i in range(300)]
    (folder / "people.csv").write_text("\n".join(["city,age,pay", *rows, ""]))
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(RELEASE)
    return run(read_declaration(folder / "release.yaml"), bits=Keyed("values"))


QUALITY = {"few": {None: "few_people", 10**6: "A"}, "pay": {10: "D"}, "each": {4999.0: "D"}}
"""The quality of a value that is put into the second cell."""


def forged(folder: Path, column: str, change: Callable[[list[object]], object]) -> list[str]:
    """Change the values of a column, seal all of it anew, and return what is found."""
    path = folder / "by_city.parquet"
    table = pq.read_table(path)
    values = table.column(column).to_pylist()
    change(values)
    changed = {column: values}
    if values[1] in QUALITY.get(column, {}):
        codes = table.column(f"{column}_quality").to_pylist()
        changed[f"{column}_quality"] = [codes[0], QUALITY[column][values[1]], *codes[2:]]
    for name, several in changed.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array(several, field.type))
    pq.write_table(table, path, compression="zstd", write_statistics=False)
    record = json.loads((folder / "manifest.json").read_bytes())
    record["files"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    seal(folder, record)
    return [finding.code for finding in verify(folder).findings]


def put(value: object) -> Callable[[list[object]], object]:
    def change(values: list[object]) -> None:
        values[1] = value

    return change


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("n", put(-1)),
        ("n", put(None)),
        ("n_moe", put(0)),
        ("n_quality", put("B")),
        ("n_quality", put(None)),
        ("few_quality", put("undefined")),
        ("few", put(3)),
        ("pay_quality", put("good")),
        ("pay", put(15)),
        ("pay", put(None)),
        ("pay_moe", put(1)),
        ("coded", put(6)),
        ("coded", put(14)),
        ("coded", put(60)),
        ("coded_label", put("7")),
        ("mid", put(-1)),
        ("mid", put(121)),
        ("mid", put(None)),
        ("each", put(400.0)),
        ("each", put(4999.0)),  # within the bounds, and outside of its interval
        ("each", put(None)),
        ("each_lower", put(-1.0)),
        ("each_lower", put(None)),
        ("each_upper", put(5001.0)),
        ("each_quality", put("few_people")),
        ("each_quality", put("C")),
        ("each_quality", put("at_bound")),
        ("mid_lower", put(120)),
        ("mid_lower", put(-1)),
        ("mid_lower", put(None)),
        ("mid_upper", put(0)),
        ("mid_upper", put(121)),
        ("mid_quality", put("undefined")),
        ("low", put(121)),
        ("low_lower", put(1)),
        ("low_upper", put(119)),
        ("few_low", put(-1)),
        ("usual", put("Ulm")),
        ("usual", put(None)),
    ],
)
def test_impossible_values_are_found(
    column: str, change: Callable[[list[object]], object], published: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(published, tmp_path / "copy"))
    assert forged(copy, column, change) == ["DP-VERIFY-006"]


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("n", lambda _: None),
        ("few", put(None)),
        ("few", put(10**6)),
        ("pay", put(10)),
        ("mid", put(51)),
        ("usual", put("Rome")),
        ("each", lambda values: values.__setitem__(1, float(str(values[1])) * (1 + 1e-12))),
    ],
)
def test_possible_values_are_accepted(
    column: str, change: Callable[[list[object]], object], published: Path, tmp_path: Path
) -> None:
    """Nothing contradicts them: only a signature shows who published them."""
    copy = Path(shutil.copytree(published, tmp_path / "copy"))
    assert forged(copy, column, change) == []
