"""A report names people by the declared label of their id, and units of columns escaped."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import dprelease

SCHEMA = """\
table: stays
source: stays.csv
privacy_unit: {id: patient_id, max_groups: 2, max_rows_per_group: 2}
columns:
  patient_id: {type: integer, label: patient}
  city: {type: category, values: [Bern, Oslo, Rome]}
  age: {type: integer, lower: 0, upper: 115, unit: "<b>years</b>"}
"""
RELEASE = """\
title: Stays by city
tables: [stays.yaml]
budget: {epsilon: 1}
queries:
  by_city:
    from: stays
    group_by: [city]
    columns:
      persons: {count_distinct: patient_id, margin: true, non_negative: true}
      rows: {count: "*"}
      age: {mean: age}
      middle: {median: age}
output: out
"""


def test_report_uses_the_label_of_the_id(tmp_path: Path) -> None:
    rows = "".join(f"{i // 2},{('Bern', 'Oslo')[i % 2]},{i % 90}\n" for i in range(900))
    (tmp_path / "stays.csv").write_text("patient_id,city,age\n" + rows)
    (tmp_path / "stays.yaml").write_text(SCHEMA)
    (tmp_path / "release.yaml").write_text(RELEASE)
    folder = dprelease.read_release(tmp_path / "release.yaml").run()
    page = Path(dprelease.write_report(folder, tmp_path / "page.html")).read_text("utf-8")
    text = unescape(re.sub(r"<[^>]+>", "", page))
    assert "of the same patient" in text
    assert text.count("patient_id") == 1  # in the list of source columns, by their names
    assert "<b>years" not in page
    assert "<b>years</b>" in text
