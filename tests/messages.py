"""A small survey, and mistakes in its files: what is replaced by what."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

SCHEMA = """\
table: people
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}
columns:
  person: {type: integer}
  sex: {type: category, values: [F, M]}
  age: {type: integer, lower: 0, upper: 115}
  income:
    type: number
    lower: 0
    upper: 5000
    step: 0.5
  born: {type: date, lower: 1900-01-01, upper: 2020-12-31}
  member: {type: boolean}
  note: {type: text}
"""
RELEASE = """\
title: People
tables:
  - people.yaml
budget: {epsilon: 1}
queries:
  by_sex:
    from: people
    where: age >= 18
    group_by: [sex]
    columns:
      persons:
        count: "*"
      pay:
        sum: income
output: out/people
"""
ROWS = "person,sex,age,income,born,member,note\n1,F,30,100,1990-01-01,true,a\n"


def write(folder: Path, file: str = "", old: str = "", new: str = "") -> None:
    """Write the survey with one mistake: in one file, one text replaced by another."""
    write_with(folder, [(file, old, new)] if file else [])


def write_with(folder: Path, edits: Iterable[tuple[str, str, str]]) -> None:
    """Write the survey with several mistakes: file, what is replaced, by what."""
    texts = {"people.yaml": SCHEMA, "release.yaml": RELEASE, "people.csv": ROWS}
    for file, old, new in edits:
        assert texts[file].count(old) == 1, old
        texts[file] = texts[file].replace(old, new)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
