"""Small releases of many kinds, run once from a stream that repeats, with labels as they declare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from dprelease import cli
from dprelease.documents.metadata import Metadata
from dprelease.exports.export import PublishedRelease
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.after_publication.report_writing import _table_metadata
from dprelease.verification.manifest_comparison import read_any_manifest
from tests.replay import Keyed

PEOPLE = """\
table: people
owner: office
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 1}
columns:
  person: {type: integer}
  city: {type: category, values: [Bern, Oslo, Rome, Nuuk]}
  area: {type: category, values: {north: [Oslo, Nuuk], south: [Bern, Rome]}, within: side}
  side: {type: category, values: [north, south]}
  sex: {type: category, values: [f, m]}
  old: {type: boolean}
  job: {type: category, values: [farmer, nurse, poet]}
  age: {type: integer, lower: 0, upper: 115, unit: years}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5, unit: EUR}
"""
HEADER = "person,city,area,side,sex,old,job,age,pay\n"
CITIES = ("Bern", "Oslo", "Rome", "Nuuk", "Paris")
ROWS = [
    f"{i % 300},{CITIES[i * i % 5]},{CITIES[i * i % 4]},,{'fm'[i % 3 % 2]},"
    f"{('true', 'false')[i % 2]},{('farmer', 'nurse', 'poet')[i % 7 % 3]},{i % 95},{i * 37 % 5000}\n"
    for i in range(400)
]
START = "title: {title}\ntables: [people.yaml]\nbudget: {budget}\n{more}queries:\n"
QUERIES = {
    "several": """\
  by_city:
    from: people
    where: age >= 18
    group_by: [city, sex]
    columns:
      people: {count: "*", margin: true, suppress_above: 30 %}
      ids: {count_distinct: person, moe: 40}
      pay: {sum: pay, margin: 99 %}
      mean_pay: {mean: pay, margin: true}
      usual: {median: age}
      work: {mode: job}
  cube:
    from: people
    cube: [city, sex, old]
    columns:
      everybody: {count: "*", suppress_below: 5}
      clipped: {count: age, non_negative: true}
""",
    "family": """\
  population:
    from: people
    hierarchy: [side, area]
    marginals: [[], [sex], [sex, old]]
    columns: {persons: {count: "*"}}
    consistent: {non_negative: true}
""",
    "exact": """\
  population:
    from: people
    hierarchy: [side, area]
    marginals: [[], [sex]]
    columns: {persons: {count: "*", margin: true}}
    consistent:
      non_negative: true
      invariants: [{level: side}]
      acknowledge: invariants are published exactly
""",
    "chosen": "  work: {from: people, columns: {usual: {median: age}, work: {mode: job}}}\n",
    "wide": "".join(
        f"  q{n}:\n    from: people\n    cube: [city, sex, old, job, side]\n"
        f"    columns: {{rows: {{count: '*'}}, pay{n}: {{sum: pay}}}}\n"
        for n in range(7)
    ),
    "single": "  all: {from: people, group_by: [city], columns: {rows: {count: '*'}}}\n",
}


@dataclass(frozen=True)
class Kind:
    """A release: its queries, its budget, further lines, and whether every row is a person."""

    queries: str
    budget: str = "{epsilon: 1, delta: 1e-8}"
    more: str = ""
    rows: bool = False


KINDS = {
    "several": Kind("several"),
    "family": Kind("family", "{rho: 0.5, delta: 1e-8}", rows=True),
    "exact": Kind("exact", "{epsilon: 1, delta: 1e-8, neighbours: replace}", rows=True),
    "chosen": Kind("chosen", "{epsilon: 0.5}"),
    "wide": Kind("wide", "{epsilon: 8}", rows=True),
    "paid": Kind("single", "{epsilon: 0.25}", "ledger: ledger.sqlite\n"),
    "replaced": Kind("single", "{epsilon: 0.25, neighbours: replace}"),
}


def write(folder: Path, name: str) -> Path:
    """Return the release file of a kind, written into a folder with its data."""
    kind = KINDS[name]
    people = PEOPLE
    if kind.rows:
        people = "\n".join(line for line in PEOPLE.splitlines() if "privacy_unit" not in line)
    (folder / "people.yaml").write_text(people, encoding="utf-8")
    (folder / "people.csv").write_text(HEADER + "".join(ROWS), encoding="utf-8")
    start = START.format(title=f"A release, {name}", budget=kind.budget, more=kind.more)
    path = folder / "release.yaml"
    path.write_text(start + QUERIES[kind.queries] + "output: out/it\n", encoding="utf-8")
    if kind.more:
        words = f"ledger init {folder}/ledger.sqlite --table people --owner office --unit person"
        words += " --epsilon 1 --every year"
        done = CliRunner().invoke(cli.app, words.split())
        assert done.exit_code == 0, done.output
    return path


def publish(folder: Path, name: str) -> Path:
    """Return the folder of a release of a kind."""
    return run(read_declaration(write(folder, name)), bits=Keyed(name))


def read_release(folder: Path, **said: Any) -> PublishedRelease:
    """Return a release with its metadata; `said` changes parts of it."""
    record = read_any_manifest(folder)
    metadata: Metadata = replace(_table_metadata(record, folder), **said)
    return PublishedRelease(folder, record, metadata)
