"""A report and a plan warn of tables of which most numbers are unreliable or empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.report.words.en import SENTENCES

SCHEMA = """\
table: people
source: people.csv
size: 900
columns:
  city: {type: category, values: [Bern, Oslo, Rome]}
  age: {type: integer, lower: 0, upper: 115}
"""
RELEASE = """\
title: People by city
tables: [people.yaml]
budget: {epsilon: EPSILON}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      n: {count: "*"}
      age: {mean: age}
output: out
"""


@pytest.mark.parametrize(("epsilon", "is_weak"), [("0.005", True), ("10", False)])
def test_weak_tables_are_named(epsilon: str, is_weak: bool, tmp_path: Path) -> None:
    rows = "".join(f"{('Bern', 'Oslo', 'Rome')[i % 3]},{i % 90}\n" for i in range(900))
    (tmp_path / "people.csv").write_text("city,age\n" + rows)
    (tmp_path / "people.yaml").write_text(SCHEMA)
    path = tmp_path / "release.yaml"
    path.write_text(RELEASE.replace("EPSILON", epsilon))
    planned = CliRunner().invoke(cli.app, ["plan", str(path)]).stdout
    assert ("too wide to quote them" in " ".join(planned.split())) == is_weak
    folder = dprelease.read_release(path).run()
    page = dprelease.write_report(folder, tmp_path / "page.html").read_text("utf-8")
    assert (SENTENCES["quality.weak"].partition("{")[0] in page) == is_weak
