"""Rehearsals of local and federated releases: complete, marked, and with true values."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.cli.rehearsal_command import error_table_text
from dprelease.documents.encoding import canonical, sha256
from dprelease.documents.party_manifest import FederatedRehearsalManifest
from dprelease.documents.rehearsal_manifest import ERRORS, FORMATS, NOTE, NOTED, ColumnErrors
from dprelease.errors import DeclarationError, DpReleaseError
from dprelease.query.local_records import resolve_records
from dprelease.rehearsal.party_stand_ins import party_of_unit
from dprelease.rehearsal.rehearse import Rehearsal, write_rehearsal
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.schema.load import read_declaration
from dprelease.tables import formats
from dprelease.verification.manifest_comparison import FORMS, read_any_manifest, read_manifest_as
from tests.manifest_files import as_release, with_digest
from tests.replay import Keyed

PEOPLE = """\
table: people
source: nowhere.csv
owner: office
columns:
  person: {type: text}
  city: {type: category, values: [Bern, Thun, Wald], fill: Bern, others: Bern}
  insured: {type: boolean, fill: false}
  age: {type: integer, lower: 0, upper: 99, unit: years, fill: 0}
  cost: {type: number, lower: -10, upper: 1000, step: 0.5, fill: 0}
"""
RECORDS = """\
title: Records
tables: [people.yaml]
mode: local
budget: {epsilon: 6, neighbours: replace}
records:
  everybody: {from: people, columns: [city, insured, age, cost]}
  again: {from: people, columns: [age]}
output: out/release
"""
UNIT = "privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}\ncolumns:"
PARTIES = """\
title: Parties
tables: [people.yaml]
budget: {epsilon: 2, delta: 1e-6}
federated: {parties: 3, honest: 2}
queries:
  by_city:
    from: people
    group_by: [city]
    columns: {n: {count: "*"}, n_moe: {sum: cost}}
  all: {from: people, columns: {n: {count: "*"}}}
output: out/release
"""
KINDS = ("records", "parties")
Made = Callable[[str], Path]


def write(folder: Path, kind: str) -> Path:
    people = PEOPLE if kind == "records" else PEOPLE.replace("columns:", UNIT)
    (folder / "people.yaml").write_text(people)
    path = folder / "release.yaml"
    path.write_text(RECORDS if kind == "records" else PARTIES)
    return path


def made_in(folder: Path, kind: str, rows: int = 300, **asked: Any) -> Path:
    declaration = read_declaration(write(folder, kind))
    return write_rehearsal(declaration, rows={"people": rows}, bits=Keyed(kind), **asked)


@pytest.fixture(scope="module")
def rehearsal_of(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return cache(lambda kind: made_in(tmp_path_factory.mktemp(kind), kind))


def read_truth(folder: Path, name: str) -> Any:
    return formats.PUBLISHED_FORMAT.read(folder / f"truth/{name}.parquet").to_pandas()


def copied(made: Made, kind: str, folder: Path) -> Path:
    """Return a copy of a rehearsal, to be changed."""
    return Path(shutil.copytree(made(kind), folder / "copy"))


def errors_of(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    told = json.loads((folder / ERRORS).read_bytes())
    return {(one["table"], one["column"]): one for one in told}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("kind", KINDS)
def test_local_and_federated_rehearsals_are_no_releases(rehearsal_of: Made, kind: str) -> None:
    folder = rehearsal_of(kind)
    report = dprelease.verify(folder, rehearsal=True)
    assert report.ok, report.findings
    assert report.to_json()["rehearsal"] is True
    assert "DP-VERIFY-019" in {finding.code for finding in dprelease.verify(folder).findings}
    own = type(read_any_manifest(folder))
    for model in {*FORMS.values()} - {own}:
        with pytest.raises(DpReleaseError) as caught:
            read_manifest_as(folder, model)
        assert caught.value.code == "DP-VERIFY-025"
    for path in folder.rglob("*.parquet"):
        assert formats.PUBLISHED_FORMAT.notes(path) == {NOTED.encode(): NOTE.encode()}
    for refused in (
        lambda: dprelease.sign(folder, None),  # type: ignore[arg-type]
        lambda: dprelease.local_estimate(folder, "age", records="again"),
        lambda: dprelease.federated_sum([folder, folder, folder]),
    ):
        with pytest.raises(DpReleaseError):
            refused()


@pytest.mark.parametrize("kind", KINDS)
def test_missing_mark_of_other_rehearsals_is_found(
    rehearsal_of: Made, kind: str, tmp_path: Path
) -> None:
    """A manifest written anew as a release's is found by the files, which say what they are."""
    folder = copied(rehearsal_of, kind, tmp_path)
    record = json.loads((folder / "manifest.json").read_text())
    plain = as_release(record)
    if kind == "parties":  # as party 1 would write it
        plain |= {"party": 1}
        for file in plain["files"]:
            file["sha256"] = sha256((folder / "parties/1" / file["name"]).read_bytes())
            (folder / file["name"]).write_bytes((folder / "parties/1" / file["name"]).read_bytes())
    sealed = with_digest({n: v for n, v in plain.items() if n != "digest"})
    (folder / "manifest.json").write_bytes(canonical(sealed))
    codes = {finding.code for finding in dprelease.verify(folder).findings}
    assert {"DP-VERIFY-005", "DP-VERIFY-006"} <= codes


def test_local_rehearsal_has_true_records(rehearsal_of: Made) -> None:
    """The true records are the invented rows in the order of the noised ones, which is random.

    Errors are recomputed here, column by column.
    """
    folder = rehearsal_of("records")
    people = pq.read_table(folder / "truth/people/people.parquet").to_pandas()
    table, told = read_truth(folder, "everybody"), errors_of(folder)
    invented = {
        "city": people["city"].where(people["city"].isin(["Bern", "Thun", "Wald"]), "Bern"),
        "insured": people["insured"].fillna(value=False).astype(bool),
        "age": people["age"].fillna(0).clip(0, 99).astype(int),
        "cost": people["cost"].astype(float).fillna(0).clip(-10, 1000),
    }
    true = {name: table[f"true_{name}"].astype(invented[name].dtype) for name in invented}
    rows, stored = ([*zip(*some.values(), strict=True)] for some in (true, invented))
    assert sorted(rows) == sorted(stored)
    assert rows != stored
    estimates = read_truth(folder, "estimates/everybody")
    for name, column in true.items():
        is_number = name in ("age", "cost")
        if is_number:
            off = table[name].astype(float) - column.astype(float)
        else:
            off = (table[name] != column).astype(float)
        one = told["everybody", name]
        assert one["cells"] == len(people) == 300
        assert one["mean_absolute_error"] == pytest.approx(off.abs().mean())
        assert one["bias"] == pytest.approx(off.mean())
        assert one["expected"] == pytest.approx(off.abs().mean(), rel=0.35)
        mine = estimates[estimates["column"] == name]
        if is_number:
            assert mine["true"].tolist() == [pytest.approx(column.astype(float).mean())]
        else:
            parts = column.map(str).str.lower().value_counts(normalize=True)
            assert dict(zip(mine["value"].str.lower(), mine["true"], strict=True)) == {
                value: pytest.approx(part) for value, part in parts.items()
            }
        every = told["estimates/everybody", name]
        assert every["covered"] == (mine["estimate"] - mine["true"]).abs().le(mine["margin"]).mean()
    assert ("again", "age") in told


def test_noised_and_true_records_have_one_order(tmp_path: Path) -> None:
    """With hardly any noise each record is the true one of its row."""
    path = write(tmp_path, "records")
    path.write_text(RECORDS.replace("epsilon: 6", "epsilon: 100"))
    folder = write_rehearsal(read_declaration(path), rows={"people": 50}, bits=Keyed("order"))
    everybody, again = read_truth(folder, "everybody"), read_truth(folder, "again")
    for name in ("city", "insured"):
        assert (everybody[name] == everybody[f"true_{name}"]).all()
    for table in (everybody, again):
        assert table["age"].corr(table["true_age"]) > 0.9
    assert sorted(everybody["true_age"]) == sorted(again["true_age"])
    assert list(everybody["true_age"]) != list(again["true_age"])


def test_federated_rehearsal_has_true_sums(rehearsal_of: Made) -> None:
    """The sum is that of the messages; what is true of it, of all invented rows together."""
    folder = rehearsal_of("parties")
    people = pq.read_table(folder / "truth/people/people.parquet").to_pandas()
    table, record = (
        read_truth(folder, "by_city"),
        read_manifest_as(folder, FederatedRehearsalManifest),
    )
    assert list(table.columns[:5]) == ["city", "n", "n_moe_", "n_moe", "n_moe_moe"]
    rows = people["city"].where(people["city"].isin(["Bern", "Thun", "Wald"]), "Bern")
    counted = rows.value_counts().reindex(table["city"], fill_value=0)
    assert table["true_rows"].tolist() == table["unbounded_n"].tolist() == counted.tolist()
    assert (table["true_n"] <= table["unbounded_n"]).all()
    held = {(m.query, m.column): m for m in record.measurements}["by_city", "n"]
    sent = [
        pq.read_table(folder / f"parties/{i}/by_city.parquet")["n"].to_numpy() for i in (1, 2, 3)
    ]
    total = sum(one.view(np.uint64) for one in sent).view(np.int64)
    assert (table["n"] == total / held.refined).all()
    assert errors_of(folder)["by_city", "n"]["covered"] is not None
    off = (table["n"] - table["true_n"]).abs().mean()
    assert errors_of(folder)["by_city", "n"]["mean_absolute_error"] == pytest.approx(off)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "kind",
    ["records", "csv", "jsonl.gz", "parquet", pytest.param("no id", marks=pytest.mark.audit)],
)
@pytest.mark.share(0.4)
def test_other_rehearsals_on_a_public_file(kind: str, tmp_path: Path) -> None:
    """What is true is that of the whole file, to whichever party its rows were dealt."""
    path = write(tmp_path, "records" if kind == "records" else "parties")
    people = tmp_path / "people.yaml"
    if kind == "no id":
        people.write_text(PEOPLE)
    people.write_text(people.read_text().replace("nowhere.csv", "{path: n.csv, delimiter: ;}"))
    rows = [
        {"person": f"p{i % 20}, ü", "city": city, "insured": True, "age": i, "cost": 1.5}
        for i, city in enumerate(["Bern", "Thun", "Wald", "Bern"] * 10)
    ]
    public = tmp_path / f"public.{kind if kind in ('jsonl.gz', 'parquet') else 'csv'}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), public)
    elif kind == "jsonl.gz":
        public.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    else:
        lines = [";".join(rows[0])] + [";".join(map(str, row.values())) for row in rows]
        public.write_text("\n".join(lines).replace("True", "true") + "\n")
    done = dprelease.rehearse(path, on=public)
    report = dprelease.verify(done.folder, rehearsal=True)
    assert report.ok, report.findings
    assert not (done.folder / "truth/people").exists()
    if kind == "records":
        assert sorted(done.tables["everybody"]["true_age"]) == list(range(40))
    else:
        assert done.tables["all"]["true_rows"].tolist() == [40]
        assert done.tables["by_city"]["true_rows"].tolist() == [20, 10, 10]
        # With bounds of two groups and two rows of each: persons are whole with one party.
        assert done.tables["all"]["true_n"].tolist() == [40]


def test_persons_are_split_among_all_parties() -> None:
    to = [party_of_unit(f"person {i:010}", 5) for i in range(500)]
    assert {*to} == {*range(5)}
    assert to == [party_of_unit(f"person {i:010}", 5) for i in range(500)]
    assert party_of_unit(7, 5) == party_of_unit("7", 5)


def test_files_that_can_not_be_split_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "parties")
    for name, text in (("empty.csv", ""), ("broken.jsonl", "{\n"), ("none.parquet", "PAR")):
        (tmp_path / name).write_text(text)
        with pytest.raises(DeclarationError) as caught:
            dprelease.rehearse(path, on=tmp_path / name)
        assert caught.value.code == "DP-REHEARSE-003", name
        assert "can't be read" in caught.value.cause
    assert not (tmp_path / "out/release-rehearsal").exists()


def test_local_rehearsal_refuses_sources(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path, "records"))
    recorders = StandIns.of(declaration, {}, {}).recorders(resolve_records(declaration))
    with pytest.raises(TypeError, match="stand-ins alone"), recorders:
        pass


def change(path: Path) -> None:
    """Make the first number that is no key another one, in every row."""
    table = pq.read_table(path)
    at = next(i for i, field in enumerate(table.schema) if field.name in ("estimate", "n", "age"))
    field = table.schema.field(at)
    values = [value + 1 for value in table.column(at).to_pylist()]
    formats.write_table(table.set_column(at, field, pa.array(values, field.type)), path)


CHANGED = {
    "everybody": "truth/everybody.parquet",
    "estimates": "truth/estimates/everybody.parquet",
    "by_city": "truth/by_city.parquet",
    "sum": "by_city.parquet",
    "message": "parties/2/by_city.parquet",
}


def tamper(folder: Path, what: str, told: dict[str, Any]) -> None:
    """Change a file of a rehearsal, or what its manifest tells of the truth."""
    if what in CHANGED:
        change(folder / CHANGED[what])
    match what:
        case "errors":
            (folder / ERRORS).write_text((folder / ERRORS).read_text().replace('"bias"', '"Bias"'))
        case "no truth":
            name = folder / "truth/everybody.parquet"
            formats.write_table(pq.read_table(name).drop_columns(["true_age"]), name)
        case "no message":
            (folder / told["messages"].pop()["name"]).unlink()
        case "words":
            told["words"] = "A release."
        case "rows":
            told["stand_ins"][0]["rows"] += 1
        case "stand-in":
            told["stand_ins"][0]["by"] = "public"


@pytest.mark.parametrize(
    ("kind", "what", "problem"),
    [
        ("records", "errors", "has other errors"),
        ("records", "everybody", "differs from the result"),
        ("records", "estimates", "differs from the result"),
        ("records", "no truth", "has other columns"),
        ("records", "words", "description"),
        ("records", "rows", "number of invented rows"),
        ("parties", "errors", "has other errors"),
        ("parties", "by_city", "differs from the result"),
        ("parties", "sum", "differs from the result"),
        ("parties", "message", "differs from the result"),
        ("parties", "no message", "lacks messages"),
        ("parties", "stand-in", "what replaced"),
    ],
)
def test_tampered_truth_of_other_rehearsals_is_found(
    rehearsal_of: Made, kind: str, what: str, problem: str, tmp_path: Path
) -> None:
    folder = copied(rehearsal_of, kind, tmp_path)
    record = json.loads((folder / "manifest.json").read_text())
    told = record["rehearsal"]

    tamper(folder, what, told)
    for file in (*told["truth"], *told.get("messages", ()), *record["files"]):
        file["sha256"] = sha256((folder / file["name"]).read_bytes())
    plain = {n: v for n, v in record.items() if n != "digest"}
    (folder / "manifest.json").write_bytes(canonical(with_digest(plain)))
    findings = dprelease.verify(folder, rehearsal=True).findings
    assert {finding.code for finding in findings} == {"DP-VERIFY-021"}
    assert any(problem in finding.cause for finding in findings)


@pytest.mark.parametrize("kind", KINDS)
def test_output_of_rehearse_command_for_other_kinds(
    rehearsal_of: Made, kind: str, tmp_path: Path
) -> None:
    path = write(tmp_path, kind)
    done = CliRunner().invoke(app, ["rehearse", str(path), "--rows", "50", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert answer["rehearsal"] is True
    errors = [ColumnErrors.model_validate(one) for one in answer["errors"]]
    shown = error_table_text(errors, wide=True)
    assert ("everybody.age" if kind == "records" else "by_city.n") in shown
    assert all(one["unit"] in shown for one in answer["errors"])
    page = dprelease.write_report(rehearsal_of(kind), tmp_path / "page.html").read_text()
    assert "This is a rehearsal." in page
    assert "Errors of a rehearsal" in page
    assert "Not for publication" not in page
    found = Rehearsal(rehearsal_of(kind))
    assert {"table", "column", "rows"} <= {*found.errors.columns}
    assert set(found.tables) == (
        {"again", "everybody", "estimates/again", "estimates/everybody"}
        if kind == "records"
        else {"all", "by_city"}
    )


def test_too_many_parties_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "parties")
    path.write_text(PARTIES.replace("parties: 3, honest: 2", "parties: 101, honest: 100"))
    with pytest.raises(DeclarationError) as caught:
        dprelease.rehearse(path, rows=10)
    assert caught.value.code == "DP-REHEARSE-001"
    assert "more than 100 parties" in caught.value.cause


def test_every_kind_of_release_has_a_rehearsal() -> None:
    assert {*FORMS} == {*FORMATS} | {form.replace("rehearsal", "manifest") for form in FORMATS}
