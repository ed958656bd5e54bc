"""A release with everything that a format has to carry, and its metadata."""

from __future__ import annotations

import json
from pathlib import Path

from dprelease.documents.release_metadata import metadata_of
from dprelease.exports.export import PublishedRelease
from dprelease.planning.prepare import prepare
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.verification.manifest_comparison import read_any_manifest
from tests.replay import Keyed

AREAS = ["Bern Stadt", "65+", "NA", "_x0041_", "Zürich", "A,B", 'say "x"', "😀", "null", "-"]
"""Values that CSV, pandas or SDMX could take for something else."""


def in_two_languages(text: str) -> str:
    """Return a label in two languages."""
    return json.dumps(
        {"en": f"{text} <en> & 'it'", "de": f"{text} auf Deutsch"}, ensure_ascii=False
    )


SCHEMA = f"""\
table: people
source: people.csv
privacy_unit: {{id: person, max_groups: 2, max_rows_per_group: 2}}
columns:
  person: {{type: integer}}
  area:
    type: category
    label: {in_two_languages("Area")}
    description: {in_two_languages("Where they live")}
    footnotes: [{in_two_languages("As of January")}]
    values: {{{", ".join(f"{json.dumps(area, ensure_ascii=False)}: {in_two_languages(area)}" for area in AREAS)}}}
  Größe: {{type: category, values: {{klein: {in_two_languages("small")}, groß: {in_two_languages("tall")}}}}}
  old: {{type: boolean, label: {in_two_languages("Old")}, labels: {{"true": {in_two_languages("yes")}, "false": {in_two_languages("no")}}}}}
  year: {{type: integer, lower: -1, upper: 2}}
  day: {{type: date, lower: 2024-01-01, upper: 2024-01-03}}
  job: {{type: category, values: {{cook: {in_two_languages("Cook")}, "sea man": {in_two_languages("Sailor")}}}}}
  pay: {{type: number, lower: 0, upper: 50, step: 0.5, unit: EUR}}
"""
ABOUT = f"""\
about:
  languages: [en, de]
  title: {in_two_languages("People & pay")}
  description: {in_two_languages("People by area.")}
  publisher: Office of Statistics
  contact: data@office.example
  licence: CC-BY-4.0
  period: 2024
  area: Switzerland
  version: "1.2"
  replaces: https://office.example/people/2023
  methodology: https://office.example/methods
  notes: [{in_two_languages("Invented people.")}]
"""
QUERIES = f"""\
title: People & pay
tables: [people.yaml]
budget: {{epsilon: 8, delta: 1e-8}}
mechanism: laplace
queries:
  by_area:
    label: {in_two_languages("People by area")}
    description: {in_two_languages("Of all ages")}
    footnotes: [{in_two_languages("Rounded by nobody")}]
    from: people
    group_by: [area, Größe]
    columns:
      n: {{count: "*", margin: 0.9, suppress_below: 2, weight: 9, label: {in_two_languages("People")}}}
      pay: {{sum: pay, margin: true, weight: 9, label: {in_two_languages("Pay")}}}
      paid: {{mean: pay, margin: true, decimals: 1, label: {in_two_languages("Mean pay")}}}
      coded: {{count: "*", bottom_code: 1, top_code: 4, labels: true, non_negative: true, label: {in_two_languages("Coded")}}}
  by_kind:
    from: people
    group_by: [old, year, day]
    columns:
      n: {{count: "*", label: {in_two_languages("People")}}}
      job: {{mode: job, mechanism: permute_and_flip, label: {in_two_languages("Job")}}}
  total:
    from: people
    columns: {{n: {{count: "*", label: {in_two_languages("All people")}}}}}
  agreed:
    from: people
    cube: [Größe, old]
    columns: {{n: {{count: "*", margin: 0.9, mechanism: discrete_gaussian}}}}
    consistent: {{non_negative: true, publish: {{records: true}}}}
output: out
"""
RELEASE = QUERIES + ABOUT


def write_release(folder: Path, release: str = RELEASE) -> Path:
    """Return the release file, written with its table and invented people."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["person,area,Größe,old,year,day,job,pay"]
    for i in range(120):
        area = AREAS[i * i % 7].replace('"', '""')
        row = [i, f'"{area}"', ("klein", "groß")[i % 2], str(i % 3 == 0).lower(), i % 4 - 1]
        row += [f"2024-01-0{i % 3 + 1}", ("cook", "sea man")[i % 5 == 0], i % 100 / 2]
        lines.append(",".join(map(str, row)))
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "people.yaml").write_text(SCHEMA, encoding="utf-8")
    (folder / "release.yaml").write_text(release, encoding="utf-8")
    return folder / "release.yaml"


def publish_release(folder: Path, release: str = RELEASE) -> PublishedRelease:
    """Publish such a release with repeatable noise, and return it with its metadata."""
    return release_with_metadata(read_declaration(write_release(folder, release)))


def release_with_metadata(declaration: Declaration) -> PublishedRelease:
    """Publish a declared release, and return it with its metadata."""
    out = run(declaration, bits=Keyed("exports"))
    record = read_any_manifest(out)
    queries, plan = prepare(declaration)
    families = plan.families
    return PublishedRelease(out, record, metadata_of(declaration, queries, families))
