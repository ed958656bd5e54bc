"""Names of truth columns never collide with published columns or keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.documents.metadata import ColumnMetadata, Role, TableMetadata
from dprelease.documents.rehearsal_manifest import truth_columns
from dprelease.rehearsal.rehearse import write_rehearsal
from dprelease.report.accuracy.rehearsal_errors import TruthFiles
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

TABLE = """\
table: visits
source: nowhere.csv
size: 500
privacy_unit: {id: person, max_groups: 1, max_rows_per_group: 2}
columns:
  person: {type: text}
  KEY: {type: category, values: [a, b]}
  sex: {type: category, values: [f, m]}
  note: {type: text}
  age: {type: integer, lower: 0, upper: 99}
"""
RELEASE = """\
title: Names
tables: [visits.yaml]
budget: {epsilon: 8, delta: 1e-6}
mechanism: discrete_laplace
queries:
  asked:
    from: visits
    ASKED
    columns: {ONE: {count: "*", margin: true}, OTHER: {ANSWER: age}}
output: out/names
"""
PAIRS = [
    ("rows", "x"),
    ("x", "true_x"),
    ("x", "unbounded_x"),
    ("x", "off_x"),
    ("off_x", "x"),
    ("rows", "true_rows"),
    ("Rows", "true_rOWS_"),
    ("is_published", "true_is_published"),
    ("x", "true_x_moe"),
]
KEYS = ["sector", "true_rows", "is_published", "TRUE_X", "rows of the cell", "rows"]
SITUATIONS = {
    "public keys": "group_by: ['KEY', sex]",
    "keys that are found": "group_by: [note]\n    private_keys: true",
    "tables that agree": "marginals: [[], ['KEY', sex]]\n    consistent: {non_negative: true}",
}


def rehearsed(folder: Path, one: str, other: str, key: str, situation: str, answer: str) -> Path:
    (folder / "visits.yaml").write_text(TABLE.replace("KEY", f"'{key}'"))
    text = RELEASE.replace("ASKED", SITUATIONS[situation].replace("KEY", key))
    text = text.replace("ONE", one).replace("OTHER", other).replace("ANSWER", answer)
    (folder / "release.yaml").write_text(text)
    return write_rehearsal(read_declaration(folder / "release.yaml"), bits=Keyed("names"))


@pytest.mark.share(0.2)
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_published_column_may_have_any_name(
    tmp_path: Path, one: str, other: str, situation: str
) -> None:
    answer = "median" if situation == "public keys" and "off" in one + other else "sum"
    folder = rehearsed(tmp_path, one, other, "sector", situation, answer)
    assert dprelease.verify(folder, rehearsal=True).ok


@pytest.mark.parametrize("key", KEYS)
def test_key_may_have_any_name(tmp_path: Path, key: str) -> None:
    folder = rehearsed(tmp_path, "n", "x", key, "public keys", "median")
    assert dprelease.verify(folder, rehearsal=True).ok


@pytest.mark.parametrize(("other", "key"), [("true_x", "sector"), ("y", "true_x")])
def test_report_reads_truth_columns_only(tmp_path: Path, other: str, key: str) -> None:
    """`true_x` is published here: with noise, and of another column, or as a key."""
    folder = rehearsed(tmp_path, "x", other, key, "public keys", "sum")
    kinds = pq.read_schema(folder / "asked.parquet")
    endings = {"_moe": Role.MARGIN, "_quality": Role.QUALITY}
    roles = [
        next((role for ending, role in endings.items() if field.name.endswith(ending)), Role.VALUE)
        for field in kinds
    ]
    roles[:2] = [Role.KEY, Role.KEY]
    columns = tuple(
        ColumnMetadata(field.name, str(field.type), role, field.name)
        for field, role in zip(kinds, roles, strict=True)
    )
    table = TableMetadata("asked", "asked.parquet", "asked", columns, 4)
    batches = TruthFiles(folder).batches(table, ["x"])
    assert batches is not None
    (batch,) = batches
    truth = pq.read_table(folder / "truth/asked.parquet")
    assert batch.column("x").to_pylist() == truth.column("true_x_").to_pylist()
    assert batch.column("x").to_pylist() != truth.column("true_x").to_pylist()


def test_truth_column_names_are_distinct() -> None:
    published = ["rows", "true_rows", "x", "true_x", "unbounded_x", "off_true_x", "IS_published"]
    names = truth_columns(["True_Rows_"], published)
    own = [*names.true.values(), *names.unbounded.values(), *names.off.values()]
    every = [*own, names.rows, names.is_published, *published, "True_Rows_"]
    assert len({name.casefold() for name in every}) == len(every)
    assert names == truth_columns(["True_Rows_"], reversed(published))


def test_truth_column_names_are_plain_by_default() -> None:
    names = truth_columns(["sex"], ["n"])
    assert names.true == {"n": "true_n"}
    assert names.unbounded == {"n": "unbounded_n"}
    assert (names.rows, names.is_published) == ("true_rows", "is_published")
