"""A small family of tables for tests: people by areas, sex and age, and its release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from tests.replay import Keyed

TOWNS = {"ZH": ["Uster", "Zurich"], "BE": ["Thun", "Bern", "Biel"], "UR": ["Altdorf"]}
"""Ragged: a state with one town."""

CLASSES = {
    "Uster": ("small", "M1"), "Zurich": ("large", "M2"), "Thun": ("small", "M1"),
    "Bern": ("large", "M3"), "Biel": ("small", "M3"), "Altdorf": ("small", "M2"),
}  # fmt: skip
"""The size of each town, and its market, across states."""
GROUPED = {
    "within": "[state, size, market]",
    "classes": "  size: {type: category, values: [large, small]}\n"
    "  zone: {type: category, values: [West, East]}\n"
    "  market: {type: category, within: zone, values: {West: [M3], East: [M1, M2]}}\n",
}
"""What a schema with these groupings of towns says in addition."""

SCHEMA = """\
table: people
owner: office
source: people.csv
{unit}columns:
  id: {{type: integer}}
  state: {{type: category, values: [ZH, BE, UR]}}
  town: {{type: category, within: {within}, values_from: {{file: towns.csv, column: town}}}}
{classes}  sex: {{type: category, values: [f, m]}}
  old: {{type: boolean}}
  age: {{type: integer, lower: 0, upper: 99}}
  pay: {{type: number, lower: {least}, upper: 100, step: {step}}}
  band: {{cut: age, edges: [0, 18, 65, 100]}}
"""
RELEASE = """\
title: A family
tables: [people.yaml]
budget: {{{budget}}}
mechanism: {mechanism}
queries:
  pop:
    from: people
    {asked}
    columns: {columns}
    consistent: {consistent}
{more}output: out/pop
"""
TREE = "hierarchy: [state, town]\n    marginals: [[], [sex], [band, sex]]"
DEFAULTS: dict[str, Any] = {
    "budget": "epsilon: 1, delta: 1e-6",
    "mechanism": "discrete_gaussian",
    "asked": TREE,
    "columns": '{n: {count: "*"}}',
    "consistent": "true",
    "more": "",
    "unit": "privacy_unit: {}\n",
    "least": "0",
    "step": "1",
    "rows": 600,
    "within": "state",
    "classes": "",
}
BY_ID = "privacy_unit: {id: id, max_groups: 2, max_rows_per_group: 1}\n"


def people_rows(rows: int) -> list[tuple[object, ...]]:
    """Return rows of people; the old are never in band 0-17."""
    towns = [town for some in TOWNS.values() for town in some]
    found = []
    for i in range(rows):
        age = (i * 37) % 100
        sex = "fm"[(i // 3) % 2]
        pay = (i * 7) % 101
        old = str(age >= 65).lower()
        found.append((i % 400, towns[(i * i) % 6], sex, old, age, pay))
    return found


def write_family(folder: Path, **asked: Any) -> Path:
    """Write a schema, its key file, rows and a release into a folder; return the release's path."""
    given = {**DEFAULTS, **asked}
    folder.mkdir(parents=True, exist_ok=True)
    rows = "".join(",".join(map(str, row)) + "\n" for row in people_rows(given["rows"]))
    (folder / "people.csv").write_text("id,town,sex,old,age,pay\n" + rows)
    lines = [
        ",".join((town, state, *CLASSES[town])) for state, some in TOWNS.items() for town in some
    ]
    (folder / "towns.csv").write_text("\n".join(["town,state,size,market", *lines, ""]))
    (folder / "people.yaml").write_text(SCHEMA.format(**given))
    (folder / "release.yaml").write_text(RELEASE.format(**given))
    return folder / "release.yaml"


def read_family(folder: Path, **asked: Any) -> Declaration:
    """Return the declaration of such a release."""
    return read_declaration(write_family(folder, **asked))


def publish_family(folder: Path, bits: str = "family", **asked: Any) -> Path:
    """Publish such a release from replayed bits; return its folder."""
    return run(read_family(folder, **asked), bits=Keyed(bits), overwrite=True)
