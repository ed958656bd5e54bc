"""Files of values, short and long, CSV and Parquet: the same keys of all, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.documents.encoding import canonical
from dprelease.errors import DeclarationError, DpReleaseError, Findings, OutputError
from dprelease.release import execute
from dprelease.release.runs.pipeline import run
from dprelease.schema.columns import CategoryColumn
from dprelease.schema.load import Declaration, read_declaration, table_from_mapping
from dprelease.schema.public_values import key_files, large_files
from dprelease.system.files import read_file
from tests.manifest_files import with_digest
from tests.release.area_family import TOWNS, write_family
from tests.replay import Keyed

STATES = {"type": "category", "values": ["ZH", "BE"]}
PAIRS = [("Thun", "BE"), ("Uster", "ZH"), ("Bern, the old", "BE"), ('"x"', "BE"), ("é", "ZH")]
CSV = 'town,state\nThun,BE\r\nUster,ZH\n\n"Bern, the old",BE\n"""x""",BE\né,ZH\n'


def table(columns: dict[str, Any]) -> pa.Table:
    return pa.table(columns)


def dictionary(values: list[str]) -> pa.Array:
    return pa.array(values).dictionary_encode()


NAMES, AREAS = ([pair[i] for pair in PAIRS] for i in (0, 1))
FORMS: dict[str, Callable[[Path], object]] = {
    "t.csv": lambda path: path.write_text(CSV, encoding="utf-8"),
    "bom.csv": lambda path: path.write_text(CSV, encoding="utf-8-sig"),
    "t.parquet": lambda path: pq.write_table(table({"town": NAMES, "state": AREAS}), path),
    "t.pq": lambda path: pq.write_table(
        table({"state": dictionary(AREAS), "town": dictionary(NAMES)}), path
    ),
    "large.parquet": lambda path: pq.write_table(
        table({"town": pa.array(NAMES, pa.large_string()), "state": AREAS}), path, row_group_size=2
    ),
}


def declare_town(folder: Path, file: str) -> CategoryColumn:
    town = {"type": "category", "within": "state", "values_from": file}
    made = table_from_mapping({"table": "t", "columns": {"state": STATES, "town": town}}, folder)
    column = made.table.columns["town"]
    assert isinstance(column, CategoryColumn)
    return column


@pytest.mark.parametrize("most_text", [large_files.MOST_LISTED, 0])
@pytest.mark.parametrize("form", FORMS)
def test_every_file_format_gives_the_same_keys(
    form: str, most_text: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a file that is read as it stands as one whose text is held."""
    monkeypatch.setattr(large_files, "MOST_LISTED", most_text)
    monkeypatch.setattr(key_files, "READ_AT_ONCE", 24)
    FORMS[form](tmp_path / form)
    column = declare_town(tmp_path, form)
    order = [i for state in ("ZH", "BE") for i, area in enumerate(AREAS) if area == state]
    assert column.values == tuple(NAMES[i] for i in order)
    assert column.parent_areas == tuple(AREAS[i] for i in order)
    assert hash(column.values) == hash(tuple(NAMES[i] for i in order))


def csv(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(text.encode())


def parquet(columns: dict[str, Any]) -> Callable[[Path], object]:
    return lambda path: pq.write_table(table(columns), path)


REFUSED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no header": ("t.csv", csv(""), "no column names"),
    "no value": ("t.csv", csv("town,state\n"), "lists no value"),
    "a code for a header": ("t.csv", csv("01001,state\n01003,BE\n"), "has a number, not column names"),
    "another header": ("t.csv", csv("Town,State\nThun,BE\n"), "no column 'state', but 'State'"),
    "a third column": ("t.csv", csv("town,state,n\nThun,BE,1\n"), "does not name one"),
    "twice": ("t.csv", csv("town,state,state\nThun,BE,BE\n"), "has two columns 'state'"),
    "ragged": ("t.csv", csv("town,state\nThun,BE\nBern\n"), "its line 3 has 1 cell, and its first line 2"),
    "ragged after a long text": (
        "t.csv",
        csv('town,state\n"Th\nun",BE\nBern,BE,1\n'),
        "its line 4 has 3 cells, and its first line 2",
    ),
    "no text": ("t.csv", lambda path: path.write_bytes(b"town,state\n\xff,BE\n"), ""),
    "nul": ("t.csv", csv("town,state\na\0b,BE\n"), ""),
    "long": ("t.csv", csv(f"town,state\n{'x' * 1001},BE\n"), ""),
    "no Parquet": ("t.parquet", csv("town,state\nThun,BE\n"), "not a Parquet file"),
    "cut Parquet": (
        "t.parquet",
        lambda path: (FORMS["t.parquet"](path), path.write_bytes(path.read_bytes()[:-20])),
        "not a Parquet file",
    ),
    "missing": ("t.parquet", parquet({"town": ["a", None], "state": ["BE", "BE"]}), "is missing"),
    "floats": ("t.parquet", parquet({"town": [1.5], "state": ["BE"]}), "neither texts"),
    "nested": ("t.parquet", parquet({"town": [["a"]], "state": ["BE"]}), "neither texts"),
    "nothing": ("t.parquet", parquet({"town": pa.array([], "string"), "state": pa.array([], "string")}), "no value"),
    "a long one": ("t.parquet", parquet({"town": ["x" * 1001], "state": ["BE"]}), "1000 characters"),
    "not there": ("t.parquet", lambda path: None, "is not there"),
    "a folder": ("t.parquet", lambda path: path.mkdir(), "is a folder"),
}  # fmt: skip


@pytest.mark.parametrize("most_text", [large_files.MOST_LISTED, 0])
@pytest.mark.parametrize("what", REFUSED)
def test_invalid_value_files_are_refused(
    what: str, most_text: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way it is read."""
    monkeypatch.setattr(large_files, "MOST_LISTED", most_text)
    name, made, words = REFUSED[what]
    made(tmp_path / name)
    with pytest.raises(DpReleaseError) as caught:
        declare_town(tmp_path, name)
    error = caught.value
    found = list(error.errors) if isinstance(error, Findings) else [error]
    assert {one.code for one in found} <= {"DP-SCHEMA-004", "DP-DECL-003"}, str(error)
    assert words in str(error)


@pytest.mark.parametrize("most_text", [large_files.MOST_LISTED, 0])
def test_missing_column_of_a_value_file_is_named(
    most_text: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else of the first line, which is a value where there is no header."""
    monkeypatch.setattr(large_files, "MOST_LISTED", most_text)
    (tmp_path / "t.csv").write_text("secret,state\nThun,BE\n", encoding="utf-8")
    wanted = {"file": "t.csv", "column": "kk"}
    columns = {"k": {"type": "category", "values_from": wanted}}
    with pytest.raises(DeclarationError, match="it has no column 'kk'\\.") as caught:
        table_from_mapping({"table": "t", "source": "r.csv", "columns": columns}, tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("form", ["t.csv", "t.parquet"])
def test_value_file_limits_while_reading(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FORMS[form](tmp_path / form)
    for limit, name in ((4, "MOST_VALUES"), (9, "LARGEST")):
        with monkeypatch.context() as changed:
            changed.setattr(large_files, "MOST_LISTED", 0)
            changed.setattr(key_files, name, limit)
            with pytest.raises(DeclarationError, match="DP-SCHEMA-004"):
                declare_town(tmp_path, form)


def test_numbers_are_read_as_digits(tmp_path: Path) -> None:
    parquet({"town": [12, 7], "state": ["BE", "ZH"]})(tmp_path / "t.parquet")
    assert declare_town(tmp_path, "t.parquet").values == ("7", "12")


def release(folder: Path, form: str) -> Path:
    """Return a release whose towns are in a binary file."""
    path = write_family(folder, rows=50)
    schema = folder / "people.yaml"
    schema.write_text(schema.read_text().replace("towns.csv", f"towns.{form}"))
    if form == "parquet":
        pairs = [(town, state) for state, some in TOWNS.items() for town in some]
        columns = {"town": [a for a, _ in pairs], "state": [b for _, b in pairs]}
        pq.write_table(table(columns), folder / "towns.parquet")
    return path


def publish_release(folder: Path, form: str) -> tuple[Declaration, Path]:
    declaration = read_declaration(release(folder, form))
    return declaration, run(declaration, bits=Keyed("files"), overwrite=True)


@pytest.fixture
def no_listed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file of values be a text of the manifest."""
    monkeypatch.setattr(large_files, "MOST_LISTED", 0)


@pytest.mark.usefixtures("no_listed_files")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_release_has_a_copy_of_value_files(form: str, tmp_path: Path) -> None:
    declaration, folder = publish_release(tmp_path, form)
    ((file, path),) = declaration.copies.values()
    record = json.loads((folder / "manifest.json").read_text())
    assert list(record["declaration"]["files"]) == [f"towns.{form}"]
    assert not any("towns" in name for name in record["declaration"]["texts"])
    assert (folder / file.copy).read_bytes() == path.read_bytes()
    for name in tmp_path.iterdir():
        if name.is_file():
            name.unlink()  # nothing but the release's folder is left
    assert dprelease.verify(folder).ok
    frame = dprelease.areas(folder, {"leaf": ["Bern", "Biel"], "area": ["a", "a"]})
    assert len(frame)


@pytest.mark.usefixtures("no_listed_files")
def test_long_and_short_value_files_give_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for form in ("csv", "parquet"):
        _, folder = publish_release(tmp_path / form, form)
        found.append(
            {
                p.name: p.read_bytes()
                for p in folder.rglob("*.parquet")
                if p.parent.name != "declaration"
            }
        )
    monkeypatch.setattr(large_files, "MOST_LISTED", 4 << 20)
    _, folder = publish_release(tmp_path / "text", "csv")
    found.append({path.name: path.read_bytes() for path in folder.rglob("*.parquet")})
    assert found[0] == found[1] == found[2]


FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "another copy": (lambda copy: copy.write_bytes(copy.read_bytes() + b"Chur,ZH\n"), "DP-VERIFY-004"),
    "no copy": (lambda copy: copy.unlink(), "DP-VERIFY-004"),
    "a second file": (lambda copy: (copy.parent / "x.csv").write_text("x"), "DP-VERIFY-005"),
}  # fmt: skip


@pytest.mark.usefixtures("no_listed_files")
@pytest.mark.parametrize("what", FORGED)
def test_forged_copies_are_found(what: str, tmp_path: Path) -> None:
    declaration, folder = publish_release(tmp_path, "csv")
    ((file, _),) = declaration.copies.values()
    forge, code = FORGED[what]
    forge(folder / file.copy)
    report = dprelease.verify(folder)
    assert code in {finding.code for finding in report.findings}


@pytest.mark.usefixtures("no_listed_files")
@pytest.mark.parametrize("digest", ["../../x", "0" * 63, "A" * 64])
def test_invalid_names_of_copies_are_refused(digest: str, tmp_path: Path) -> None:
    """What else it could name is no file of its folder."""
    _, folder = publish_release(tmp_path, "csv")
    path = folder / "manifest.json"
    record = json.loads(path.read_text())
    record["declaration"]["files"]["towns.csv"]["sha256"] = digest
    del record["digest"]
    path.write_bytes(canonical(with_digest(record)))
    report = dprelease.verify(folder)
    assert [finding.code for finding in report.findings] == ["DP-VERIFY-002"]


@pytest.mark.usefixtures("no_listed_files")
@pytest.mark.parametrize("change", ["longer", "shorter", "other", "gone"])
def test_value_file_changed_after_reading_is_refused(change: str, tmp_path: Path) -> None:
    """Refused before any row is read; nothing is published."""
    declaration = read_declaration(release(tmp_path, "csv"))
    path = tmp_path / "towns.csv"
    text = path.read_text()
    path.write_text({"longer": text + "x,ZH\n", "shorter": text[:-9]}.get(change, text.upper()))
    if change == "gone":
        path.unlink()
    with pytest.raises(DeclarationError, match="DP-RELEASE-020") as caught:
        run(declaration, bits=Keyed("files"))
    assert "no row was read" in str(caught.value).lower() or "nothing" in str(caught.value).lower()
    assert not (tmp_path / "out" / "pop").exists()


@pytest.mark.usefixtures("no_listed_files")
def test_value_file_changed_between_columns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.csv").write_text("v\na\n")
    reads = iter([b"v\na\n", b"v\nb\n"])
    monkeypatch.setattr(large_files, "read_file", lambda *_: next(reads))
    column = {"type": "category", "values_from": "v.csv"}
    with pytest.raises(DeclarationError, match="DP-SCHEMA-004"):
        table_from_mapping({"table": "t", "columns": {"a": column, "b": column}}, tmp_path)
    assert read_file(tmp_path / "v.csv", 100) == b"v\na\n"


@pytest.mark.usefixtures("no_listed_files")
def test_overwrite_of_a_release_with_copies(tmp_path: Path) -> None:
    declaration, folder = publish_release(tmp_path, "csv")
    assert run(declaration, bits=Keyed("again"), overwrite=True) == folder
    (folder / "declaration" / "notes.txt").write_text("kept here")
    with pytest.raises(OutputError, match="DP-OUTPUT-009"):
        run(declaration, bits=Keyed("again"), overwrite=True)
    assert execute.NAME == "manifest.json"
