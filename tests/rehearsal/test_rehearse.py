"""Whole rehearsals: what is published, what is true, and that no declared source is opened."""

from __future__ import annotations

import json
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.documents.encoding import canonical, sha256
from dprelease.documents.manifest import RehearsalManifest
from dprelease.documents.rehearsal_manifest import ERRORS, NOTE, NOTED
from dprelease.errors import DeclarationError, DpReleaseError, OutputError, VerificationError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.planning.prepare import prepare
from dprelease.query.resolve import resolve
from dprelease.rehearsal.rehearse import write_rehearsal
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.rehearsal.truth import truths
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.tables import formats
from dprelease.verification.manifest_comparison import FORMS, read_any_manifest, read_manifest_as
from tests.manifest_files import as_release, with_digest
from tests.rehearsal.build import AGREEING, EXACT, FOUND, write
from tests.replay import Keyed
from tests.signatures.keys import held

CANARY = "Xq7canaryZ"
SMALL = """\
title: Homes
tables: [homes.yaml]
budget: {epsilon: 1}
queries:
  rooms:
    from: homes
    group_by: [city]
    columns: {n: {count: "*", margin: true}}
output: out/homes
"""


@pytest.fixture(scope="module")
def rehearsal_of_all_aggregates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everything")
    return write_rehearsal(read_declaration(write(folder)), bits=Keyed("everything"))


@pytest.fixture(scope="module")
def consistent_rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreeing")
    return write_rehearsal(read_declaration(write(folder, AGREEING)), bits=Keyed("agreeing"))


def people(folder: Path, table: str = "visits") -> pd.DataFrame:
    return pq.read_table(folder / f"truth/people/{table}.parquet").to_pandas()


def truth(folder: Path, name: str) -> pd.DataFrame:
    return pq.read_table(folder / f"truth/{name}.parquet").to_pandas()


def of_state(visits: pd.DataFrame) -> pd.Series[Any]:
    """Return the state that each row counts in, by the schema of the test."""
    known = visits["state"].where(visits["state"].isin(["BE", "ZH", "GE"]), "GE")
    return known.where(visits["state"].notna(), "ZH")


def test_truth_of_every_aggregate_equals_pandas(rehearsal_of_all_aggregates: Path) -> None:
    """Without bounds, conditions and the like the truth is plain pandas over the invented rows."""
    visits, found = (
        people(rehearsal_of_all_aggregates),
        truth(rehearsal_of_all_aggregates, "finished"),
    )
    rows = visits[visits["person"].notna()].groupby(of_state(visits)).size()
    assert found.set_index("state")["true_rows"].to_dict() == rows.to_dict()
    assert found.set_index("state")["unbounded_n"].to_dict() == rows.to_dict()
    assert (found["true_n"] < found["unbounded_n"]).all()
    adults = visits[(visits["age"] >= 18) & (visits["note"] != "gone") & visits["note"].notna()]
    spent = truth(rehearsal_of_all_aggregates, "counts_state").set_index("state")["unbounded_spent"]
    wanted = adults["cost"].fillna(0).groupby(of_state(adults)).sum()
    assert spent.astype(float).to_dict() == wanted.to_dict()
    homes = people(rehearsal_of_all_aggregates, "homes")
    bands = pd.cut(homes["rooms"], [1, 3, 10], right=False, labels=["1-2", "3-9"])
    told = truth(rehearsal_of_all_aggregates, "rooms").set_index("rooms_band")["true_n"]
    assert told.to_dict() == bands.value_counts().to_dict()


def test_errors_of_quantiles_are_in_rows(rehearsal_of_all_aggregates: Path) -> None:
    """In tables of units with one row each the exact quantile has no row between it and its rank."""
    found = truth(rehearsal_of_all_aggregates, "values")
    visits = people(rehearsal_of_all_aggregates).query("sex == 'f' and age == age")
    assert found["unbounded_middle"][0] == np.sort(visits["age"])[-(-len(visits) // 2) - 1]
    assert found["unbounded_high"][0] == visits["age"].max()
    assert (found[["off_middle", "off_low", "off_high", "off_tenth", "off_most"]] >= 0).all(
        axis=None
    )
    same = found["middle"] == found["true_middle"]
    assert (found["off_middle"][same] == 0).all()


def test_truth_has_all_private_keys_without_columns(tmp_path: Path) -> None:
    alone = yaml.safe_load(FOUND.replace("MECHANISM", "gaussian_threshold"))
    for query in alone["queries"].values():
        query.pop("columns")
    path = write(tmp_path, json.dumps(alone))
    folder = write_rehearsal(read_declaration(path), bits=Keyed("found"))
    found, published = truth(folder, "found"), pq.read_table(folder / "found.parquet")
    assert set(found["note"]) == set(people(folder)["note"].dropna())
    assert found[found["is_published"]]["note"].tolist() == published["note"].to_pylist()
    assert dprelease.verify(folder, rehearsal=True).ok


@pytest.mark.parametrize(
    "mechanism", ["partition_selection", "truncated_laplace", "gaussian_threshold"]
)
def test_truth_has_all_private_keys(tmp_path: Path, mechanism: str) -> None:
    path = write(tmp_path, FOUND.replace("MECHANISM", mechanism))
    folder = write_rehearsal(read_declaration(path), bits=Keyed("found"))
    found, published = truth(folder, "found"), pq.read_table(folder / "found.parquet")
    visits = people(folder)
    assert set(found["note"]) == set(visits["note"].dropna())
    assert 0 < found["is_published"].sum() == len(published) < len(found)
    assert found[found["is_published"]]["note"].tolist() == published["note"].to_pylist()
    assert found["n"].notna().equals(found["is_published"])
    units = visits.dropna(subset=["note"]).groupby("note")["person"].nunique()
    assert found.set_index("note")["unbounded_people"].to_dict() == units.to_dict()
    assert dprelease.verify(folder, rehearsal=True).ok


def test_every_table_has_truth_and_errors(
    rehearsal_of_all_aggregates: Path, consistent_rehearsal: Path
) -> None:
    for folder in (rehearsal_of_all_aggregates, consistent_rehearsal):
        record = json.loads((folder / "manifest.json").read_text())
        readable = {
            file["name"]
            for file in record["files"]
            if not file["name"].startswith(("measurements/", "records/"))
        }
        true = {file["name"] for file in record["rehearsal"]["truth"]}
        assert {f"truth/{name}" for name in readable} == {
            name for name in true if name.endswith(".parquet") and "/people/" not in name
        }
        told = {row["table"] for row in json.loads((folder / ERRORS).read_text())}
        assert {f"{name}.parquet" for name in told} == readable


def test_consistent_tables_have_consistent_truth(consistent_rehearsal: Path) -> None:
    by_sex = truth(consistent_rehearsal, "tables/agree_state_sex").groupby("state")["true_n"].sum()
    states = truth(consistent_rehearsal, "estimates/agree_state").set_index("state")["true_n"]
    assert by_sex.to_dict() == states.to_dict()
    errors = json.loads((consistent_rehearsal / ERRORS).read_text())
    assert all(row["covered"] is not None for row in errors if row["table"].startswith("tables/"))


def test_margins_have_the_stated_coverage(tmp_path: Path) -> None:
    """1,600 cells of noise whose margins hold exactly 95 % or a little more."""
    release = SMALL.replace("group_by: [city]", "group_by: [day]").replace("homes", "days")
    path = write(tmp_path, release)
    (tmp_path / "days.yaml").write_text(
        "table: days\nsource: nowhere.csv\ncolumns:\n"
        "  day: {type: date, lower: 2020-01-01, upper: 2024-05-18}\nrehearsal: {rows: 20000}\n"
    )
    folder = write_rehearsal(read_declaration(path), bits=Keyed("covering"))
    (told,) = json.loads((folder / ERRORS).read_text())
    assert told["cells"] == 1600
    assert 0.93 < told["covered"] < 0.98
    assert abs(told["mean_absolute_error"] / told["expected"] - 1) < 0.15
    assert sum(one["cells"] for one in told["classes"]) == 1600


def test_invariants_equal_the_synthetic_people(tmp_path: Path) -> None:
    folder = write_rehearsal(read_declaration(write(tmp_path, EXACT)), rows={"visits": 2_000})
    for name in ("estimates/agree_state", "tables/agree_state", "tables/agree_total"):
        found = truth(folder, name)
        assert found["n"].tolist() == found["true_n"].tolist()
    assert (truth(folder, "tables/agree_city_sex").eval("n != true_n")).any()
    assert dprelease.verify(folder, rehearsal=True).ok


# What is opened


def watched(paths: list[Path]) -> set[str]:
    """Return the files among `paths` that are opened from now on; a hook can't be taken away."""
    opened: set[str] = set()
    names = {str(path) for path in paths}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]) in names:
            opened.add(str(arguments[0]))

    sys.addaudithook(hook)
    return opened


@pytest.mark.share(0.25)
@pytest.mark.parametrize("there", ["canary", "unreadable", "a pipe", "a folder", "missing"])
def test_rehearsal_opens_no_declared_source(tmp_path: Path, there: str) -> None:
    """What a pipe holds would be waited for, what is unreadable refused, a canary be found."""
    path = write(tmp_path)
    sources = [tmp_path / name for name in ("secret/visits.csv", "nowhere.parquet", "nowhere.csv")]
    (tmp_path / "secret").mkdir()
    for source in sources:
        if there == "canary":
            source.write_text(f"person,state,code,city\n{CANARY},BE,{CANARY},Bern\n")
        elif there == "unreadable":
            source.write_text("person\n1\n")
            source.chmod(0)
        elif there == "a pipe":
            os.mkfifo(source)
        elif there == "a folder":
            source.mkdir()
    opened = watched(sources)
    stamps = [source.stat().st_atime_ns if source.exists() else 0 for source in sources]
    done = CliRunner().invoke(app, ["rehearse", str(path), "--rows", "500"])
    assert done.exit_code == 0, done.output
    assert not opened
    assert stamps == [source.stat().st_atime_ns if source.exists() else 0 for source in sources]
    written = [p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert len(written) > 20
    assert CANARY.encode() not in done.output.encode() + b"".join(written)


def test_exact_answers_need_stand_ins(tmp_path: Path) -> None:
    """Queries of a declaration with sources are refused before an engine is opened."""
    path = write(tmp_path, SMALL)
    declaration = read_declaration(path)
    pq.write_table(pa.table({"city": ["Bern"], "rooms": [3]}), tmp_path / "nowhere.parquet")
    stand_ins = StandIns.of(declaration, {}, {"homes": 10})
    queries, _ = prepare(stand_ins.declaration)
    stand_ins = stand_ins.invent(queries, Keyed("cast"))
    assert [truth.rows.sum() <= 10 for truth in truths(stand_ins, queries)] == [True]
    with pytest.raises(TypeError, match="stand-ins alone"):
        list(truths(stand_ins, resolve(declaration)))


def test_rehearsal_charges_no_ledger(tmp_path: Path) -> None:
    path = write(tmp_path)
    write_rehearsal(read_declaration(path), rows={"visits": 300})
    assert not (tmp_path / "ledger.sqlite").exists()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("office/visits", "add_remove", "person", None, 0, 1))  # type: ignore[arg-type]
    before = (tmp_path / "ledger.sqlite").read_bytes()
    folder = write_rehearsal(read_declaration(path), rows={"visits": 300}, overwrite=True)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before
    assert read_any_manifest(folder).ledger_entry is None


# What it is told from


def test_rehearsal_is_no_release(
    rehearsal_of_all_aggregates: Path, consistent_rehearsal: Path
) -> None:
    for folder in (rehearsal_of_all_aggregates, consistent_rehearsal):
        report = dprelease.verify(folder, rehearsal=True)
        assert report.ok, report.findings
        assert report.to_json()["rehearsal"] is True
        with pytest.raises(DpReleaseError):
            dprelease.areas(folder, {"leaf": [], "area": []})


def test_verify_of_a_rehearsal_needs_the_option(tmp_path: Path) -> None:
    folder = write_rehearsal(read_declaration(write(tmp_path, SMALL)), rows={"homes": 100})
    assert [f.code for f in dprelease.verify(folder).findings] == ["DP-VERIFY-019"]
    shown = CliRunner().invoke(app, ["verify", str(folder)])
    assert shown.exit_code == 4
    assert "DP-VERIFY-019" in shown.output
    shown = CliRunner().invoke(app, ["verify", str(folder), "--rehearsal"])
    assert shown.exit_code == 0
    assert shown.output.rstrip().endswith("This is a rehearsal, not a release.")
    assert "The release is" not in shown.output
    with pytest.raises(VerificationError) as caught:
        dprelease.sign(folder, held(tmp_path / "keys"))
    assert caught.value.code == "DP-VERIFY-019"
    assert not (folder / "manifest.json.sig").exists()


def test_readers_refuse_rehearsals(rehearsal_of_all_aggregates: Path) -> None:
    for model in FORMS.values():
        if model is not RehearsalManifest:
            with pytest.raises(DpReleaseError) as caught:
                read_manifest_as(rehearsal_of_all_aggregates, model)
            assert caught.value.code == "DP-VERIFY-025"


def test_release_is_no_rehearsal(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    homes = pa.table({"city": ["Bern", "Thun"], "rooms": [3, 4]})
    folder = run(read_declaration(path), frames={"homes": homes})
    assert [f.code for f in dprelease.verify(folder, rehearsal=True).findings] == ["DP-VERIFY-020"]
    assert CliRunner().invoke(app, ["verify", str(folder), "--rehearsal"]).exit_code == 4


def write_manifest(folder: Path, record: dict[str, Any]) -> None:
    (folder / "manifest.json").write_bytes(canonical(with_digest(record)))


def test_missing_mark_of_a_rehearsal_is_found(tmp_path: Path) -> None:
    """A manifest written anew as a release's, with or without the truth beside it, is found."""
    folder = write_rehearsal(read_declaration(write(tmp_path, SMALL)), rows={"homes": 100})
    record = as_release(json.loads((folder / "manifest.json").read_text()))
    write_manifest(folder, {n: v for n, v in record.items() if n != "digest"})
    codes = {f.code for f in dprelease.verify(folder).findings}
    assert codes == {"DP-VERIFY-005", "DP-VERIFY-006"}
    for path in sorted((folder / "truth").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (folder / "truth").rmdir()
    assert {f.code for f in dprelease.verify(folder).findings} == {"DP-VERIFY-006"}
    for path in (folder / "rooms.parquet",):
        assert formats.PUBLISHED_FORMAT.notes(path) == {NOTED.encode(): NOTE.encode()}


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("errors", "has other errors"),
        ("beside", "lacks rows or columns"),
        ("no truth", "lacks rows or columns"),
        ("words", "description"),
        ("fewer", "is missing, or invalid"),
        ("stand-in", "what replaced"),
        ("rows", "number of invented rows"),
    ],
)
def test_tampered_truth_is_found(tmp_path: Path, what: str, problem: str) -> None:
    folder = write_rehearsal(read_declaration(write(tmp_path, SMALL)), rows={"homes": 100})
    record = json.loads((folder / "manifest.json").read_text())
    told, name = record["rehearsal"], folder / "truth/rooms.parquet"
    table = pq.read_table(name)
    if what == "errors":
        (folder / ERRORS).write_text((folder / ERRORS).read_text().replace('"bias"', '"Bias"'))
    elif what == "beside":
        formats.write_table(
            table.set_column(1, "n", pa.array([1, 2, 3], table.schema[1].type)), name
        )
    elif what == "no truth":
        formats.write_table(table.drop_columns(["true_n"]), name)
    elif what == "words":
        told["words"] = "A release."
    elif what == "fewer":
        (folder / "truth/people/homes.parquet").unlink()
        (folder / "truth/people").rmdir()
        told["truth"] = [f for f in told["truth"] if "people" not in f["name"]]
    elif what == "stand-in":
        told["stand_ins"][0]["by"] = "public"
    else:
        told["stand_ins"][0]["rows"] = 99
    for file in told["truth"]:
        file["sha256"] = sha256((folder / file["name"]).read_bytes())
    write_manifest(folder, {n: v for n, v in record.items() if n != "digest"})
    findings = dprelease.verify(folder, rehearsal=True).findings
    assert {finding.code for finding in findings} == {"DP-VERIFY-021"}
    assert any(problem in finding.cause for finding in findings)


def test_rehearsal_replaces_rehearsals_only(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path, SMALL))
    first = write_rehearsal(declaration, rows={"homes": 10})
    with pytest.raises(OutputError) as caught:
        write_rehearsal(declaration)
    assert caught.value.code == "DP-OUTPUT-001"
    again = write_rehearsal(declaration, rows={"homes": 11}, overwrite=True)
    assert again == first
    assert len(people(again, "homes")) == 11
    homes = pa.table({"city": ["Bern"], "rooms": [3]})
    folder = run(declaration, frames={"homes": homes})
    with pytest.raises(OutputError) as caught:
        write_rehearsal(declaration, output=folder, overwrite=True)
    assert caught.value.code == "DP-REHEARSE-004"
    assert dprelease.verify(folder).ok
    run(declaration, frames={"homes": homes}, output=first, overwrite=True)
    assert dprelease.verify(first).ok  # a release may take the place of a rehearsal


def test_sources_matching_rehearsal_files_are_refused(tmp_path: Path) -> None:
    """A source whose pattern finds what a rehearsal would write is refused."""
    path = write(tmp_path, SMALL)
    table = tmp_path / "homes.yaml"
    for pattern in ("out/**/*.parquet", "out/homes-rehearsal/truth/people/*.parquet"):
        text = table.read_text().replace("nowhere.parquet", pattern)
        table.write_text(text)
        with pytest.raises(OutputError) as caught:
            write_rehearsal(read_declaration(path))
        assert caught.value.code == "DP-OUTPUT-012"
        table.write_text(text.replace(pattern, "nowhere.parquet"))
    assert not (tmp_path / "out").exists()


# On a public file


def test_rehearsal_on_a_public_file(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    public = tmp_path / "census.csv"
    public.write_text("city,rooms\nBern,1\nBern,2\nWald,9\n")
    done = dprelease.rehearse(path, on=public)
    assert done.tables["rooms"]["true_n"].tolist() == [2, 0, 1]
    (told,) = read_manifest_as(done.folder, RehearsalManifest).rehearsal.stand_ins
    assert told.to_json() == {
        "table": "homes", "by": "public", "file": "census.csv",
        "sha256": sha256(public.read_bytes()),
    }  # fmt: skip
    assert not (done.folder / "truth/people").exists()  # it is there to be had
    assert dprelease.verify(done.folder, rehearsal=True).ok
    assert set(done.errors["rows"]) == {"all", "0", "1 to 9"}


@pytest.mark.parametrize("public", [None, "census.csv", "census.parquet"])
def test_rehearsals_state_what_missing_texts_they_read(tmp_path: Path, public: str | None) -> None:
    """A public file in the declared format is read with the declared texts, and no other one is."""
    path = write(tmp_path, SMALL)
    source = "{path: nowhere.csv, nulls: ['', NA]}"
    table = tmp_path / "homes.yaml"
    table.write_text(table.read_text().replace("nowhere.parquet", source))
    pd.DataFrame({"city": ["Bern", "NA"], "rooms": [1, 2]}).to_parquet(tmp_path / "census.parquet")
    (tmp_path / "census.csv").write_text("city,rooms\nBern,1\nNA,2\n")
    done = dprelease.rehearse(path, on=None if public is None else tmp_path / public)
    (treated,) = read_manifest_as(done.folder, RehearsalManifest).treatments
    assert ("NA" in treated.rows) == (public == "census.csv")
    report = dprelease.verify(done.folder, rehearsal=True)
    assert report.ok, report.findings


@pytest.mark.parametrize(
    ("on", "problem"),
    [
        (["gone.csv"], "does not exist"),
        (["rows.rtf"], "extension"),
        (["data.parquet=homes"], "declared source itself"),
        (["link.parquet"], "declared source itself"),
        (["a.csv", "a.csv=homes"], "already"),
    ],
)
def test_unusable_public_files_are_refused(tmp_path: Path, on: list[str], problem: str) -> None:
    path = write(tmp_path, SMALL)
    table = tmp_path / "homes.yaml"
    table.write_text(table.read_text().replace("nowhere.parquet", "'*.parquet'"))
    pq.write_table(pa.table({"city": ["Bern"], "rooms": [3]}), tmp_path / "data.parquet")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/link.parquet").symlink_to(tmp_path / "data.parquet")
    (tmp_path / "rows.rtf").write_text("city\n")
    (tmp_path / "a.csv").write_text("city,rooms\nBern,3\n")
    given = [str(tmp_path / ("links" if "link" in name else "") / name) for name in on]
    with pytest.raises(DeclarationError) as caught:
        dprelease.rehearse(path, on=given)
    assert caught.value.code == "DP-REHEARSE-003"
    assert problem in caught.value.cause
    assert not (tmp_path / "out").exists()


FOUND_BY = ["people.parquet", "'*.parquet'", "'file://{here}/people.parquet'", "'file://{here}'"]
LINKS = [None, "symlink_to", "hardlink_to"]


@pytest.mark.each
@pytest.mark.parametrize("to", ["stays", "homes"])
@pytest.mark.parametrize(
    ("source", "link"),
    # Which files a folder has that another engine reads, nobody looks: no second name is known.
    [one for one in product(FOUND_BY, LINKS) if one != (FOUND_BY[-1], "hardlink_to")],
)
def test_declared_sources_are_refused_as_public_files(
    tmp_path: Path, to: str, source: str, link: str | None
) -> None:
    here = tmp_path / "secret"
    here.mkdir()
    path = write(here)
    there, file = here / "people.parquet", here / "people.parquet"
    pq.write_table(pa.table({"person": ["a"], "ward": ["b"], "nights": [3]}), there)
    if link is not None:
        file = tmp_path / "link.parquet"
        getattr(file, link)(there)
    table = here / "homes.yaml"
    text = table.read_text().replace("source: nowhere.parquet", "source: {path: SOURCE}")
    more = ", format: parquet}" if source.endswith("{here}'") else "}"
    table.write_text(text.replace("SOURCE}", source.format(here=here) + more))
    with pytest.raises(DeclarationError) as caught:
        dprelease.rehearse(path, on=f"{file}={to}")
    assert caught.value.code == "DP-REHEARSE-003"
    assert "declared source itself" in caught.value.cause
    assert not (here / "out").exists()


def test_public_file_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "public.csv").write_text("ward,nights\na,3\n")
    with pytest.raises(DeclarationError) as caught:
        dprelease.rehearse(write(tmp_path), on=f"{tmp_path / 'public.csv'}=stays")
    assert caught.value.code == "DP-REHEARSE-003"
    assert all(name in caught.value.cause for name in ("'public.csv'", "'stays'", "'person'"))


def test_public_file_needs_a_table_name(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        dprelease.rehearse(write(tmp_path), on="public.csv")
    assert caught.value.code == "DP-REHEARSE-003"
    assert "visits, stays, homes" in caught.value.cause


@pytest.mark.parametrize("rows", ["0", "many", "homes=", "streets=5", "-1", "1e3", "10000000000"])
def test_invalid_numbers_of_rows_are_refused(tmp_path: Path, rows: str) -> None:
    done = CliRunner().invoke(app, ["rehearse", str(write(tmp_path, SMALL)), "--rows", rows])
    assert done.exit_code == 2
    assert "DP-REHEARSE-002" in done.output


def test_output_of_rehearse_command(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    done = CliRunner().invoke(app, ["rehearse", str(path), "--rows", "homes=50", "--json"])
    answer = json.loads(done.output)
    assert answer["rehearsal"] is True
    assert {row["column"] for row in answer["errors"]} == {"n"}
    shown = CliRunner().invoke(app, ["rehearse", str(path), "--rows", "60", "--overwrite"])
    assert shown.exit_code == 0
    assert "A rehearsal, not a release" in shown.output
    assert "rooms.n" in shown.output
    assert "`dprelease report " in shown.output
    assert "Not written" not in shown.output


def test_formats_without_a_rehearsal_mark_are_not_written(
    tmp_path: Path,
) -> None:
    """The command tells which; the page can be made of it."""
    path = write(tmp_path, f"{SMALL}\nformats: [csv, report, json-stat]\n")
    done = CliRunner().invoke(app, ["rehearse", str(path), "--rows", "50", "--json"])
    answer = json.loads(done.output)
    assert answer["formats_not_written"] == ["csv", "json-stat", "report"]
    folder = Path(answer["output"])
    assert {file.suffix for file in folder.rglob("*") if file.is_file()} == {".json", ".parquet"}
    shown = CliRunner().invoke(app, ["rehearse", str(path), "--rows", "50", "--overwrite"])
    assert "Not written in csv, json-stat: " in shown.output
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
