"""A small release on disk, and runs of it with a stream that repeats."""

from __future__ import annotations

from pathlib import Path

from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

SCHEMA = """\
table: people
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}
columns:
  person: {type: integer}
  city: {type: category, values: [Bern, Oslo, Rome], fill: drop, others: Rome}
  age: {type: integer, lower: 0, upper: 115}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5}
"""
RELEASE = """\
title: People by city
tables: [people.yaml]
budget: {epsilon: 1, delta: 1e-8, neighbours: add_remove}
mechanism: discrete_gaussian
queries:
  by_city:
    from: people
    where: age >= 18
    group_by: [city]
    columns:
      people: {count_distinct: person, margin: true}
      pay: {sum: pay, mechanism: laplace}
  all:
    from: people
    columns:
      rows: {count: "*", mechanism: gaussian, weight: 0.5}
output: out/people
"""
HEADER = "person,city,age,pay\n"
ROWS = [
    f"{i},{('Bern', 'Oslo', 'Rome', 'Paris')[i % 4]},{i % 80},{i * 13 % 4000}.25\n"
    for i in range(60)
]


def write(folder: Path, rows: list[str] | None = None) -> Path:
    """Return the release file of the small release, written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "people.csv").write_text(
        HEADER + "".join(ROWS if rows is None else rows), encoding="utf-8"
    )
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(RELEASE)
    return folder / "release.yaml"


def publish(folder: Path, rows: list[str] | None = None, key: str = "noise") -> tuple[Path, Keyed]:
    """Return the folder of a release drawn from a stream that every call repeats, and the stream."""
    bits = Keyed(key)
    return run(read_declaration(write(folder, rows)), bits=bits), bits
