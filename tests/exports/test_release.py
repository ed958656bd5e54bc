"""Releases with formats: told by the manifest, all or nothing, made again by who verifies them."""

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
from dprelease.schema.release_parts.format_names import FORMATS, OF_RECORDS
from dprelease.verification.after_publication.export_copy import export
from tests.exports.build import ALL, RELEASE, WORDS_TOO, publish, write
from tests.release import area_family
from tests.replay import Keyed
from tests.verification.forging import at, opinion, places, read, seal


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the same noise not be priced twice over."""
    monkeypatch.setattr("dprelease.verification.second_opinion.second_opinion", opinion)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("released"))


@pytest.fixture
def folder(released: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(released, tmp_path / "copy")


def codes(folder: Path) -> list[str]:
    return [finding.code for finding in dprelease.verify(folder).findings]


def test_a_release_in_all_formats(released: Path) -> None:
    """The manifest lists every file by its digest, and verify makes all of them again."""
    record = read(released)
    assert [part["format"] for part in record["exports"]] == [
        "csv",
        "excel",
        "ods",
        "json-stat",
        "px",
        "datapackage",
    ]
    report = dprelease.verify(released)
    assert report.ok, report.findings
    for part in record["exports"]:
        assert f"the files of the format {part['format']} follow from the tables" in report.checked
    listed = {file["name"] for part in (record, *record["exports"]) for file in part["files"]}
    there = {p.relative_to(released).as_posix() for p in released.rglob("*") if p.is_file()}
    assert there == listed | {"manifest.json"}


def test_the_same_tables_are_the_same_bytes(released: Path, tmp_path: Path) -> None:
    """No clock and no random name is in any file."""
    again = publish(tmp_path)
    for path in released.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(released)).read_bytes(), path


def test_formats_change_no_number(released: Path, tmp_path: Path) -> None:
    """Tables are the same with and without, and so is the manifest but for what was declared."""
    plain = publish(tmp_path, more="")
    for path in plain.glob("*.parquet"):
        assert path.read_bytes() == (released / path.name).read_bytes()
    record, other = read(plain), read(released)
    differ = {name for name in {*record, *other} if record.get(name) != other.get(name)}
    assert differ == {"declaration", "digest", "exports"}


def every_export(record: dict[str, Any]) -> list[tuple[int, str]]:
    return [
        (i, file["name"])
        for i, part in enumerate(record.get("exports", []))
        for file in part["files"]
    ]


def test_every_exported_file_counts(folder: Path) -> None:
    """One that was changed is found; with a manifest that was sealed again, still."""
    record = read(folder)
    kinds = {(i, Path(name).suffix): name for i, name in every_export(record)}
    for (i, _), name in kinds.items():
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
    """Return manifests that tell of formats otherwise than was declared."""
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


def test_manifests_that_tell_of_formats_otherwise(folder: Path) -> None:
    """What the manifest no longer lists is taken out of the folder as well, and put back."""
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


def test_every_place_of_what_is_said_of_formats(folder: Path) -> None:
    """Nothing of it can be edited but the versions of packages, which others may have."""
    record = read(folder)
    free = []
    for spot in places(record["exports"]):
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
    assert free == [
        *((1, "packages", name) for name in ("xlsxwriter", "zlib")),
        (2, "packages", "zlib"),
    ]


def test_other_versions_are_read_back(folder: Path) -> None:
    """What another version of a package has written has to say the same, not to be the same."""
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


def test_a_foreign_file_beside_exports_is_found(folder: Path) -> None:
    (folder / "csv/more.csv").write_text("x")
    assert codes(folder) == ["DP-VERIFY-005"]


def test_a_release_with_formats_is_replaced(tmp_path: Path) -> None:
    """And one that holds something else beside its exports is not."""
    publish(tmp_path)
    declaration = read_declaration(tmp_path / "release.yaml")
    folder = run(declaration, overwrite=True)
    (folder / "csv/notes.txt").write_text("kept")
    with pytest.raises(DpReleaseError, match="DP-OUTPUT-009"):
        run(declaration, overwrite=True)


@pytest.mark.parametrize("failing", ["csv", "excel", "ods", "json-stat", "px", "datapackage"])
def test_a_format_that_fails_leaves_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a run that is ended between two of them."""
    from dprelease.exports.registry import export_format

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
    "formats: [csv, xlsx]\n": ("DP-EXPORT-001", "formats[1]"),
    "formats: csv\nwide: [colour]\n": ("DP-EXPORT-005", "wide"),
    "formats: csv\nwide: born_day\n": ("DP-EXPORT-005", "wide"),
}


@pytest.mark.parametrize("more", REFUSED)
def test_what_can_not_be_had_is_told_by_check_plan_and_run(more: str, tmp_path: Path) -> None:
    """Before anything is read: there is no source at all."""
    code, spot = REFUSED[more]
    path = write(tmp_path, more)
    (tmp_path / "people.csv").unlink()
    for command in (["check", str(path)], ["plan", str(path)], ["run", str(path)]):
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 2, done.output
        (finding,) = json.loads(done.output)["findings"]
        assert (finding["code"], finding["key"]) == (code, spot)
        assert finding["line"]


def test_a_table_whose_rows_nobody_knows_is_no_sheet(tmp_path: Path) -> None:
    """It is one afterwards, and a text or a cube at once."""
    release = RELEASE.replace("output: out\n", WORDS_TOO)
    path = write(tmp_path, ALL, release)
    with pytest.raises(DpReleaseError, match=r"(?s)format excel: 'words'.*format ods: 'words'"):
        run(read_declaration(path))
    path = write(tmp_path, ALL.replace("excel, ods, ", ""), release)
    folder = run(read_declaration(path))
    assert dprelease.verify(folder).ok
    target, files = export(folder, ["excel"])
    assert files == ["excel/release.xlsx"]
    assert (target / files[0]).is_file()


FAMILY = "formats: [csv, excel, ods, json-stat, px, datapackage]\nwide: [sex]\n"


def test_tables_that_agree(tmp_path: Path) -> None:
    """Estimates and whole tables are published; measurements are for who checks, persons no cells."""
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


def test_a_release_that_a_ledger_paid_for(tmp_path: Path) -> None:
    """Its entry is over what the manifest says of formats as well."""
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
def test_every_format_of_records_and_messages_is_had_or_refused(
    name: str, kind: str, tmp_path: Path
) -> None:
    """By `check`, at its place: what is left is what `OF_RECORDS` lists."""
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
    """Each is tried by `check`, listed, remade by `verify`, and says what Parquet says."""
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


def test_export_writes_outside_of_the_sealed_folder(folder: Path) -> None:
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


def test_export_in_some_languages(tmp_path: Path) -> None:
    """All of the release's languages by default; a selection decides also which one is the first."""
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


def test_what_export_refuses(folder: Path) -> None:
    """A folder inside of the release, a release that was changed, a word that is no format."""
    with pytest.raises(DpReleaseError, match="DP-REPORT-003"):
        export(folder, ["csv"], languages=["fr"])
    with pytest.raises(DpReleaseError, match="DP-EXPORT-007"):
        export(folder, ["csv"], output=folder / "more")
    assert CliRunner().invoke(app, ["export", str(folder), "--to", "cvs"]).exit_code == 2
    (folder / "cells_sex.parquet").write_bytes(b"")
    with pytest.raises(Findings, match="DP-VERIFY-004"):
        export(folder, ["csv"])
    assert [p.name for p in folder.parent.iterdir() if "export" in p.name] == []


def test_a_release_that_another_takes_the_place_of_is_not_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its manifest would stand beside tables of the other; nothing is left."""
    write_csv = csv_files.CsvFiles.write

    def replaced(self: Any, release: Any, target: Path) -> list[str]:
        files = write_csv(self, release, target)
        (folder / "cells_sex.parquet").write_bytes(b"")
        return files

    monkeypatch.setattr(csv_files.CsvFiles, "write", replaced)
    with pytest.raises(Findings, match="DP-VERIFY-004"):
        export(folder, ["csv"], output=folder.parent / "target")
    assert [p.name for p in folder.parent.iterdir() if "target" in p.name] == []


def test_an_export_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_full_disk_of_who_verifies_tells_nothing_of_the_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(*_args: object, **_more: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fails, fail)
    with pytest.raises(OutputError, match=r"DP-OUTPUT-016.*no space left on device"):
        dprelease.verify(folder)


def test_a_package_that_is_not_installed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases are refused with the line that installs it; of published ones it is noted."""
    monkeypatch.setattr("dprelease.exports.registry.versions_of", lambda export: {})
    with pytest.raises(DpReleaseError, match=r"pip install 'dprelease\[excel\]'"):
        run(read_declaration(write(tmp_path / "new")))
    report = dprelease.verify(folder)
    assert report.ok
    assert any("excel were not made again" in note for note in report.notes)
