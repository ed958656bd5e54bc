"""Releases with formats: listed in the manifest, written completely, rewritten by `verify`."""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import json
import re
import shutil
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.documents.encoding import sha256, sha256_of
from dprelease.errors import DpReleaseError, Findings, OutputError
from dprelease.exports.csv_tables import csv_files
from dprelease.ledger.ledger import Ledger
from dprelease.release.accounts import account_of
from dprelease.release.kinds import plan_release
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.schema.release_parts.extension_names import FORMATS, OF_RECORDS
from dprelease.verification.after_publication.export_copy import export
from tests.covering import sampled
from tests.exports.build import ALL, RELEASE, WORDS_TOO, publish, write
from tests.release import area_family
from tests.replay import Keyed
from tests.verification.forging import at, opinion, places, read, seal


@pytest.fixture(autouse=True)
def cached_second_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the privacy loss of the same noise only once."""
    monkeypatch.setattr("dprelease.verification.second_opinion.second_opinion", opinion)


@pytest.fixture(scope="module")
def published_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("released"))


@pytest.fixture
def folder(published_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(published_folder, tmp_path / "copy")


def codes(folder: Path) -> list[str]:
    return [finding.code for finding in dprelease.verify(folder).findings]


def test_release_in_all_formats_is_verified(published_folder: Path) -> None:
    """The manifest lists every file with its digest, and `verify` writes all of them again."""
    record = read(published_folder)
    assert [part["format"] for part in record["exports"]] == [
        "csv",
        "excel",
        "ods",
        "json-stat",
        "px",
        "datapackage",
    ]
    report = dprelease.verify(published_folder)
    assert report.ok, report.findings
    for part in record["exports"]:
        assert f"the files of the format {part['format']} follow from the tables" in report.checked
    listed = {file["name"] for part in (record, *record["exports"]) for file in part["files"]}
    there = {
        p.relative_to(published_folder).as_posix()
        for p in published_folder.rglob("*")
        if p.is_file()
    }
    assert there == listed | {"manifest.json"}


def test_exported_bytes_are_reproducible(published_folder: Path, tmp_path: Path) -> None:
    """No file contains a time or a random name."""
    again = publish(tmp_path)
    for path in published_folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(published_folder)).read_bytes(), (
                path
            )


def test_formats_change_no_number(published_folder: Path, tmp_path: Path) -> None:
    """Tables and manifest are the same with and without, except for the declaration."""
    plain = publish(tmp_path, more="")
    for path in plain.glob("*.parquet"):
        assert path.read_bytes() == (published_folder / path.name).read_bytes()
    record, other = read(plain), read(published_folder)
    differ = {name for name in {*record, *other} if record.get(name) != other.get(name)}
    assert differ == {"declaration", "digest", "exports"}


def every_export(record: dict[str, Any]) -> list[tuple[int, str]]:
    return [
        (i, file["name"])
        for i, part in enumerate(record.get("exports", []))
        for file in part["files"]
    ]


def test_changed_exported_files_are_found(folder: Path) -> None:
    """Also if the manifest is sealed again."""
    record = read(folder)
    kinds = {(i, Path(name).suffix): name for i, name in every_export(record)}
    for (i, _), name in sampled(kinds.items()):
        path = folder / name
        was = path.read_bytes()
        path.write_bytes(was.replace(b"1", b"2", 1) + b" ")
        assert codes(folder) == ["DP-VERIFY-004"], name
        forged = json.loads(json.dumps(record))
        for file in forged["exports"][i]["files"]:
            if file["name"] == name:
                file["sha256"] = sha256(path.read_bytes())
        seal(folder, forged)
        found = codes(folder)
        assert set(found) == {"DP-VERIFY-023"}, (name, found)
        path.write_bytes(was)
        seal(folder, record)
    assert codes(folder) == []


def forgeries(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return manifests whose formats differ from the declared ones."""
    made = {}
    for what in ("none", "empty", "less", "order", "file", "packages", "twice"):
        forged = made[what] = json.loads(json.dumps(record))
        exports = forged["exports"]
        if what == "none":
            del forged["exports"]
        elif what == "empty":
            forged["exports"] = []
        elif what == "less":
            exports.pop()
        elif what == "order":
            exports.reverse()
        elif what == "file":
            exports[0]["files"].pop()
        elif what == "twice":
            exports[0]["files"].append(exports[0]["files"][0])
        else:
            exports[0]["packages"] = {"csv": "1"}
    return made


def test_forged_format_lists_are_found(folder: Path) -> None:
    """Files that the manifest no longer lists are removed from the folder, too."""
    record = read(folder)
    for what, forged in forgeries(record).items():
        seal(folder, forged)
        gone = {name for _, name in every_export(record)} - {
            name for _, name in every_export(forged)
        }
        held = {name: (folder / name).read_bytes() for name in gone}
        for name in gone:
            (folder / name).unlink()
        found = [code for code in codes(folder) if code != "DP-VERIFY-005"]  # empty folders
        # An empty list is no list that a manifest would be written with.
        assert found == ["DP-VERIFY-002" if what == "empty" else "DP-VERIFY-022"], what
        for name, raw in held.items():
            (folder / name).write_bytes(raw)


def test_forged_values_of_formats_are_found(folder: Path) -> None:
    """Only versions of packages may be edited."""
    record = read(folder)
    free = []
    spots = list(sampled(places(record["exports"]), 0.3))
    for spot in spots:
        if len(spot) > 2 and spot[1] == "files" and int(spot[2]) > 0:
            continue  # of each format one file
        forged = copy.deepcopy(record)
        inner = at(forged["exports"], spot[:-1])
        was = inner[spot[-1]]
        if isinstance(was, str):
            inner[spot[-1]] = was + "x"
        else:
            del inner[spot[-1]]
        seal(folder, forged)
        if dprelease.verify(folder).ok:
            free.append(spot)
    versions = [
        *((1, "packages", name) for name in ("xlsxwriter", "zlib")),
        (2, "packages", "zlib"),
    ]
    assert free == [spot for spot in versions if spot in spots]


def test_files_of_other_package_versions_are_compared(folder: Path) -> None:
    """Files of another package version need the same content, not the same bytes."""
    record = read(folder)
    book, part = folder / "excel/release.xlsx", record["exports"][1]
    part["packages"]["xlsxwriter"] = "3.1.0"
    was = book.read_bytes()
    for change, wanted in ((b"", []), (b"<v>1</v>", ["DP-VERIFY-023"])):
        with zipfile.ZipFile(io.BytesIO(was)) as held, zipfile.ZipFile(book, "w") as write:
            for one in held.infolist():
                raw = held.read(one)
                write.writestr(one.filename, raw.replace(change, b"<v>2</v>") if change else raw)
        part["files"][0]["sha256"] = sha256_of(book)
        for other in record["exports"][2:]:
            assert part["files"][0]["name"] not in str(other)
        seal(folder, record)
        report = dprelease.verify(folder)
        assert [one.code for one in report.findings] == wanted
        assert any("read back" in line for line in report.checked)
    part["packages"]["xlsxwriter"] = version("xlsxwriter")
    seal(folder, record)
    assert codes(folder) == ["DP-VERIFY-023"]


def test_foreign_file_among_exports_is_found(folder: Path) -> None:
    (folder / "csv/more.csv").write_text("x")
    assert codes(folder) == ["DP-VERIFY-005"]


def test_release_with_formats_is_replaced(tmp_path: Path) -> None:
    """A folder with other files is not."""
    publish(tmp_path)
    declaration = read_declaration(tmp_path / "release.yaml")
    folder = run(declaration, overwrite=True)
    (folder / "csv/notes.txt").write_text("kept")
    with pytest.raises(DpReleaseError, match="DP-OUTPUT-009"):
        run(declaration, overwrite=True)


@pytest.mark.parametrize("failing", ["csv", "excel", "ods", "json-stat", "px", "datapackage"])
def test_failed_format_leaves_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a run that is interrupted between two formats."""
    from dprelease.exports.writer import export_format

    def fail(*_args: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(export_format(failing)), "write", fail)
    path = write(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(read_declaration(path))
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".out.dprelease-staging")] == []


REFUSED = {
    "formats: [cvs]\n": ("DP-EXPORT-001", "formats[0]"),
    "formats: [csv, sas]\n": ("DP-EXPORT-001", "formats[1]"),
    "formats: csv\nwide: [colour]\n": ("DP-EXPORT-005", "wide"),
    "formats: csv\nwide: born_day\n": ("DP-EXPORT-005", "wide"),
}


@pytest.mark.parametrize("more", REFUSED)
def test_impossible_formats_are_refused_by_all_commands(more: str, tmp_path: Path) -> None:
    """Before anything is read: there is no source."""
    code, spot = REFUSED[more]
    path = write(tmp_path, more)
    (tmp_path / "people.csv").unlink()
    for command in (["check", str(path)], ["plan", str(path)], ["run", str(path)]):
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 2, done.output
        (finding,) = json.loads(done.output)["findings"]
        assert (finding["code"], finding["key"]) == (code, spot)
        assert finding["line"]


def test_tables_of_private_keys_are_no_sheets_in_a_run(tmp_path: Path) -> None:
    """They can be exported afterwards; CSV and cubes work at once."""
    release = RELEASE.replace("output: out\n", WORDS_TOO)
    path = write(tmp_path, ALL, release)
    with pytest.raises(DpReleaseError, match=r"(?s)format excel: 'words'.*format ods: 'words'"):
        run(read_declaration(path))
    path = write(tmp_path, ALL.replace("excel, ods, ", ""), release)
    folder = run(read_declaration(path))
    assert dprelease.verify(folder).ok
    target, files = export(folder, ["xlsx"])
    assert files == ["excel/release.xlsx"]
    assert (target / files[0]).is_file()


FAMILY = "formats: [csv, excel, ods, json-stat, px, datapackage]\nwide: [sex]\n"


def test_consistent_tables_have_all_formats(tmp_path: Path) -> None:
    """Estimates and integer tables are exported; measurements and synthetic persons are not."""
    asked = area_family.write_family(
        tmp_path, consistent="{non_negative: true, publish: {records: true}}"
    )
    asked.write_text(asked.read_text() + FAMILY)
    folder = run(read_declaration(asked), bits=Keyed("family"))
    assert dprelease.verify(folder).ok
    names = {name for _, name in every_export(read(folder))}
    parts = {name.split("/")[1] for name in names if name.startswith("csv/")}
    assert parts == {"codes", "estimates", "tables", "records"}
    cubes = {name.split("/")[1] for name in names if name.startswith("json-stat/")}
    assert cubes == {"estimates", "tables"}
    heads = (folder / "csv/tables/pop_state_sex.csv").read_text().split("\r\n")[0].split(",")
    assert heads[:2] == ["state", "n"]  # with the totals of the table by state
    assert {"n.f", "n.m", "n_moe.f"} <= {*heads}
    for line in (folder / "csv/tables/pop_state_sex.csv").read_text().split("\r\n")[1:-1]:
        row = dict(zip(heads, line.split(","), strict=True))
        assert int(row["n"]) == int(row["n.f"]) + int(row["n.m"])


def test_ledger_entry_covers_the_formats(tmp_path: Path) -> None:
    """The ledger entry includes the format list of the manifest."""
    path = write(tmp_path, ALL + "ledger: ledger.sqlite\n")
    account = account_of("office/people", "person", "add_remove", "100", "1e-5", None)
    Ledger(tmp_path / "ledger.sqlite").open_account(account)
    schema = (tmp_path / "people.yaml").read_text()
    (tmp_path / "people.yaml").write_text(schema + "owner: office\n")
    folder = run(read_declaration(path), bits=Keyed("paid"))
    assert dprelease.verify(folder, ledger=tmp_path / "ledger.sqlite").ok
    record = read(folder)
    record["exports"][1]["packages"]["xlsxwriter"] = "3.0"
    seal(folder, record)
    assert dprelease.verify(folder).ok  # a version that others may have had
    found = dprelease.verify(folder, ledger=tmp_path / "ledger.sqlite").findings
    assert [one.code for one in found] == ["DP-VERIFY-010"]


LOCAL = """\
title: People one by one
tables: [people.yaml]
mode: local
budget: {epsilon: 6, neighbours: replace}
records:
  people:
    from: people
    columns: {city: {}}
output: out
formats: [csv]
"""
PARTIES = """\
title: People of all registers
tables: [people.yaml]
federated: {parties: 3}
budget: {epsilon: 1}
queries:
  people:
    from: people
    columns: {rows: {count: "*"}}
output: out
formats: [csv]
"""


@pytest.mark.each
@pytest.mark.parametrize("kind", ["records", "messages"])
@pytest.mark.parametrize("name", [*FORMATS, "wide"])
def test_formats_of_records_are_written_or_refused(name: str, kind: str, tmp_path: Path) -> None:
    """By `check`, with a location; `OF_RECORDS` lists the supported ones."""
    write(tmp_path)
    asked = "wide: [city]" if name == "wide" else f"formats: [parquet, {name}]"
    path, text = tmp_path / "other.yaml", LOCAL if kind == "records" else PARTIES
    path.write_text(text.replace("formats: [csv]", asked))
    if kind == "records" and name in OF_RECORDS:
        assert read_declaration(path).spec.extra_formats == (name,)
        return
    with pytest.raises(DpReleaseError, match="DP-EXPORT-004") as caught:
        read_declaration(path)
    assert ("a wide layout" if name == "wide" else f"the format {name}") in str(caught.value)
    assert re.search(r"other\.yaml:\d+", str(caught.value))
    path.write_text(text.replace("[csv]", "parquet"))
    assert read_declaration(path).spec.extra_formats == ()


def test_single_records_have_formats(tmp_path: Path) -> None:
    """Each is tested by `check`, listed, rewritten by `verify`, and equals Parquet."""
    write(tmp_path)
    path, people = tmp_path / "other.yaml", tmp_path / "people.yaml"
    path.write_text(LOCAL.replace("[csv]", f"[{', '.join(OF_RECORDS)}]"))
    city = re.compile(r"^(  city: .*)}$", re.MULTILINE)
    people.write_text(
        city.sub(
            r"\1, fill: Bern, others: Bern}",
            people.read_text().replace(
                "privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}\n", ""
            ),
        )
    )
    plan_release(read_declaration(path)).check(trial=True)
    folder = run(read_declaration(path), bits=Keyed("records"))
    record, report = read(folder), dprelease.verify(folder)
    assert report.ok, report.findings
    assert [part["format"] for part in record["exports"]] == [*OF_RECORDS]
    for name in OF_RECORDS:
        assert f"the files of the format {name} follow from the tables" in report.checked
    table = pq.read_table(folder / "people.parquet")
    with (folder / "csv/people.csv").open(encoding="utf-8", newline="") as lines:
        assert [row["city"] for row in csv.DictReader(lines)] == table.column("city").to_pylist()
    assert record["title"] in (folder / "report.html").read_text(encoding="utf-8")
    target, files = export(folder, ["csv"])
    assert (target / files[0]).read_bytes() == (folder / files[0]).read_bytes()
    with pytest.raises(DpReleaseError, match="DP-EXPORT-004"):
        export(folder, ["excel"], output=tmp_path / "new")
    (folder / "csv/people.csv").write_text("city\n")
    record["exports"][0]["files"][0]["sha256"] = hashlib.sha256(b"city\n").hexdigest()
    seal(folder, record)
    assert {one.code for one in dprelease.verify(folder).findings} == {"DP-VERIFY-023"}


def test_export_writes_outside_the_release_folder(folder: Path) -> None:
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    done = CliRunner().invoke(
        app, ["export", str(folder), "--to", "csv", "--to", "datapackage", "--json"]
    )
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    target = folder.parent / "copy-exports"
    assert answer["output"] == str(target)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    for name in answer["files"]:
        if name.startswith("csv/"):
            assert (target / name).read_bytes() == (folder / name).read_bytes()
    named = [
        one["path"] for one in json.loads((target / "datapackage.json").read_text())["resources"]
    ]
    assert named
    assert all((target / name).is_file() for name in named)
    again = CliRunner().invoke(app, ["export", str(folder), "--to", "csv"])
    assert (again.exit_code, "DP-EXPORT-006" in again.output) == (2, True)


def test_export_in_selected_languages(tmp_path: Path) -> None:
    """All languages of the release by default; a selection also decides which is the first."""
    about = "about: {publisher: Office, languages: [fr, de]}\n"
    folder = publish(tmp_path, about + "formats: [excel]\n")
    for languages, names, cover in (
        (None, ["excel/release_fr.xlsx", "excel/release_de.xlsx"], "Couverture"),
        (["de"], ["excel/release.xlsx"], "Titelblatt"),
        (["de", "fr"], ["excel/release_de.xlsx", "excel/release_fr.xlsx"], "Titelblatt"),
    ):
        target, files = export(
            folder, ["excel"], languages=languages, output=tmp_path / f"to_{languages}"
        )
        assert files == names
        assert load_workbook(target / names[0]).sheetnames[0] == cover
    assert dprelease.verify(folder).ok


def test_wrong_exports_are_refused(folder: Path) -> None:
    """A folder inside the release, a changed release, an unknown format."""
    with pytest.raises(DpReleaseError, match="DP-REPORT-003"):
        export(folder, ["csv"], languages=["fr"])
    with pytest.raises(DpReleaseError, match="DP-EXPORT-007"):
        export(folder, ["csv"], output=folder / "more")
    assert CliRunner().invoke(app, ["export", str(folder), "--to", "cvs"]).exit_code == 2
    (folder / "cells_sex.parquet").write_bytes(b"")
    with pytest.raises(Findings, match="DP-VERIFY-004"):
        export(folder, ["csv"])
    assert [p.name for p in folder.parent.iterdir() if "export" in p.name] == []


def test_release_replaced_during_export_is_not_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, manifest and tables would be of different releases; nothing is left."""
    write_csv = csv_files.CsvFiles.write

    def replaced(self: Any, release: Any, target: Path) -> list[str]:
        files = write_csv(self, release, target)
        (folder / "cells_sex.parquet").write_bytes(b"")
        return files

    monkeypatch.setattr(csv_files.CsvFiles, "write", replaced)
    with pytest.raises(Findings, match="DP-VERIFY-004"):
        export(folder, ["csv"], output=folder.parent / "target")
    assert [p.name for p in folder.parent.iterdir() if "target" in p.name] == []


def test_failed_export_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(csv_files.CsvFiles, "write", fail)
    with pytest.raises(DpReleaseError, match="DP-OUTPUT-002"):
        export(folder, ["csv"], output=folder.parent / "target")
    assert not (folder.parent / "target").exists()
    assert [p.name for p in folder.parent.iterdir() if "staging" in p.name] == []


@pytest.mark.parametrize(
    "fails",
    [
        "dprelease.exports.csv_tables.csv_files.CsvFiles.write",
        "shutil.copyfile",
        "tempfile.mkdtemp",
    ],
)
def test_full_disk_of_verify_does_not_blame_the_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(*_args: object, **_more: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fails, fail)
    with pytest.raises(OutputError, match=r"DP-OUTPUT-016.*no space left on device"):
        dprelease.verify(folder)


def test_missing_package_of_a_format(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs are refused with the install command; `verify` adds a note."""
    monkeypatch.setattr("dprelease.exports.writer.versions_of", lambda export: {})
    with pytest.raises(DpReleaseError, match=r"pip install 'dprelease\[excel\]'"):
        run(read_declaration(write(tmp_path / "new")))
    report = dprelease.verify(folder)
    assert report.ok
    assert any("excel were not made again" in note for note in report.notes)
