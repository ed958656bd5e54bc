"""A release with everything that a format has to carry, and what is said of it, made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dprelease.documents.metadata import (
    About,
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
)
from dprelease.exports.base import PublishedRelease
from dprelease.release.pipeline import run
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

AREAS = ["Bern Stadt", "65+", "NA", "_x0041_", "Zürich", "A,B", 'say "x"', "😀", "null", "-"]
"""Values that CSV, pandas or SDMX could take for something else."""

SCHEMA = f"""\
table: people
source: people.csv
privacy_unit: {{id: person, max_groups: 2, max_rows_per_group: 2}}
columns:
  person: {{type: integer}}
  area: {{type: category, values: {json.dumps(AREAS, ensure_ascii=False)}}}
  Größe: {{type: category, values: [klein, groß]}}
  old: {{type: boolean}}
  year: {{type: integer, lower: -1, upper: 2}}
  day: {{type: date, lower: 2024-01-01, upper: 2024-01-03}}
  job: {{type: category, values: [cook, "sea man"]}}
  pay: {{type: number, lower: 0, upper: 50, step: 0.5, unit: EUR}}
"""
RELEASE = """\
title: People & pay
tables: [people.yaml]
budget: {epsilon: 8, delta: 1e-8}
mechanism: laplace
queries:
  by_area:
    from: people
    group_by: [area, Größe]
    columns:
      n: {count: "*", margin: 0.9, suppress_below: 2, flag_above: 50 %, weight: 9}
      pay: {sum: pay, margin: true, weight: 9}
      paid: {mean: pay, margin: true}
      coded: {count: "*", bottom_code: 1, top_code: 4, labels: true, non_negative: true}
  by_kind:
    from: people
    group_by: [old, year, day]
    columns:
      n: {count: "*"}
      job: {mode: job, mechanism: permute_and_flip}
  total:
    from: people
    columns: {n: {count: "*"}}
  agreed:
    from: people
    cube: [Größe, old]
    columns: {n: {count: "*", margin: 0.9, mechanism: discrete_gaussian}}
    consistent: {non_negative: true, publish: {records: true}}
output: out
"""

ABOUT = About(
    title="People & pay",
    publisher="Office of Statistics",
    contact="data@office.example",
    licence="CC-BY-4.0",
    period="2024-01-01/2024-12-31",
    area="Switzerland",
    version="1.2",
    replaces="https://office.example/people/2023",
    methodology="https://office.example/methods",
    description={"en": "People by area.", "de": "Personen nach Gebiet."},
    notes=({"en": "Invented <people> & pay.", "de": "Erfunden."},),
)
LABELS: dict[str, dict[Any, dict[str, str]]] = {
    "area": {"NA": {"en": "Namibia", "de": "Namibia (Süd)"}, "-": {"en": "none", "de": "keine"}},
    "Größe": {"klein": {"en": "small <", "de": "klein"}, "groß": {"en": "tall", "de": "groß"}},
    "old": {True: {"en": "old", "de": "alt"}, False: {"en": "young", "de": "jung"}},
}
VALUES: dict[str, tuple[Any, ...]] = {
    "area": tuple(AREAS),
    "Größe": ("klein", "groß"),
    "old": (False, True),
    "job": ("cook", "sea man"),
}
ENDS = {
    "_moe": Role.MARGIN,
    "_lower": Role.LOWER,
    "_upper": Role.UPPER,
    "_se": Role.STANDARD_ERROR,
    "_label": Role.LABEL,
    "_unreliable": Role.FLAG,
    "_adjusted": Role.FLAG,
}
KEYS = ("area", "Größe", "old", "year", "day")


def written(folder: Path, release: str = RELEASE) -> Path:
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


def published(folder: Path, release: str = RELEASE, about: About = ABOUT) -> PublishedRelease:
    """Return such a release, drawn from a stream that repeats."""
    out = run(read_declaration(written(folder, release)), bits=Keyed("exports"))
    record = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return PublishedRelease(out, record, said_of(record, about))


def said_of(record: dict[str, Any], about: About) -> Metadata:
    """Return what is said of a release, roles by how names end."""
    tables = tuple(_table(file) for file in record["files"])
    return Metadata(about, ("en", "de"), tables)


def _table(file: dict[str, Any]) -> TableMetadata:
    measured = file["name"].startswith("measurements/")
    names = {column["name"] for column in file["columns"]}
    columns = tuple(_column(c["name"], c["type"], names, measured) for c in file["columns"])
    name = file["name"].removesuffix(".parquet")
    asked = name.rpartition("/")[2].split("_")[0] if "/" in name else file["query"]
    return TableMetadata(
        name=name,
        file=file["name"],
        query=asked,
        columns=columns,
        rows=file["rows"],
        measured=measured,
        label={"en": f"Table {name}", "de": f"Tafel {name}"},
        footnotes=({"en": "A note.", "de": "Anmerkung."},),
    )


def _column(name: str, kind: str, names: set[str], measured: bool) -> ColumnMetadata:
    role, of, confidence = Role.VALUE, name, ""
    if name in KEYS:
        role = Role.KEY
    elif measured:
        role = Role.MEASUREMENT
    for end, as_role in ENDS.items():
        if name.endswith(end) and name.removesuffix(end) in names:
            role, of = as_role, name.removesuffix(end)
    if role in (Role.MARGIN, Role.LOWER, Role.UPPER):
        confidence = "0.9" if of == "n" else "0.95"
    codes = VALUES.get(name)
    is_text = kind in ("string", "bool") and codes is not None
    return ColumnMetadata(
        name,
        kind,
        role,
        of,
        unit="EUR" if name.startswith(("pay", "paid")) else "",
        decimals=1 if name == "paid" else None,
        label={"en": f"Column {name}", "de": f"Spalte {name}"},
        codes=CodeList(codes, LABELS.get(name, {})) if is_text and codes else None,
        confidence=confidence,
    )
