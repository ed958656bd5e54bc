"""Releases in files of DuckDB and SQLite: all tables and the manifest, or nothing."""

from __future__ import annotations

import datetime as dt
import json
import resource
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata
from dprelease.errors import DpReleaseError, OutputError
from dprelease.errors.error_tree import EXIT_UNEXPECTED
from dprelease.exports.databases import database
from dprelease.exports.databases.database import DatabaseError, DuckDBFile, SQLiteFile
from dprelease.exports.export import PublishedRelease
from dprelease.tables import formats
from tests.release.build import RELEASE, write

FILES = ("r.duckdb", "r.sqlite")
Rows = list[tuple[Any, ...]]


def rows(path: Path, sql: str) -> Rows:
    """Return the rows of a statement in a file of either kind."""
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as link:
            return link.execute(sql).fetchall()
    found = sqlite3.connect(path)
    try:
        return found.execute(sql).fetchall()
    finally:
        found.close()


def stored_value(name: str, value: Any) -> Any:
    """Return a value as a file of this name stores it."""
    if name == "r.duckdb" or value is None:
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, dt.date) else value


def publish_release(folder: Path, change: Callable[[str], str] = str) -> Path:
    path = write(folder)
    text = RELEASE.replace("{sum: pay,", "{sum: pay, label: Pay,")
    path.write_text(change(text))
    return dprelease.run(path).folder


@pytest.mark.parametrize("name", FILES)
def test_database_has_all_tables_and_the_manifest(tmp_path: Path, name: str) -> None:
    folder, target = publish_release(tmp_path), tmp_path / name
    found = dprelease.export_to_database(folder, target)
    assert found.tables == ("by_city", "all")
    release = dprelease.PublishedRelease(folder)
    for table in found.tables:
        arrow = release.to_arrow(table)
        assert rows(target, f'SELECT * FROM "{table}"') == [
            tuple(stored_value(name, value) for value in row.values()) for row in arrow.to_pylist()
        ]
    ((digest, title, tables, manifest),) = rows(target, "SELECT * FROM dprelease_releases")
    assert (digest, title) == (release.digest, release.title)
    assert json.loads(tables) == ["by_city", "all"]
    assert manifest == (folder / "manifest.json").read_text()


def test_labels_are_comments_in_duckdb(tmp_path: Path) -> None:
    folder, target = publish_release(tmp_path), tmp_path / "r.duckdb"
    dprelease.export_to_database(folder, target)
    sql = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'by_city'"
    comments = dict(rows(target, sql))
    assert comments["pay"].startswith("Pay")
    assert comments["city"] is None


@pytest.mark.parametrize("name", FILES)
def test_database_export_replaces_only_release_tables(tmp_path: Path, name: str) -> None:
    folder, target = publish_release(tmp_path), tmp_path / name
    dprelease.export_to_database(folder, target)
    before = rows(target, "SELECT * FROM dprelease_releases")
    assert dprelease.export_to_database(folder, target).tables == ()  # it is there already
    assert rows(target, "SELECT * FROM dprelease_releases") == before
    other = publish_release(tmp_path / "other", lambda text: text.replace("  all:", "  ALL:"))
    with pytest.raises(OutputError, match="DP-EXPORT-012"):
        dprelease.export_to_database(other, target)
    dprelease.export_to_database(other, target, overwrite=True)
    ((digest, *_),) = rows(target, "SELECT * FROM dprelease_releases")
    assert digest == dprelease.PublishedRelease(other).digest
    third = publish_release(tmp_path / "third", lambda text: text.replace("  all:", "  mine:"))
    _run(target, "CREATE TABLE mine (a INTEGER)")
    with pytest.raises(OutputError, match=r"DP-EXPORT-012.*'mine'"):
        dprelease.export_to_database(third, target, overwrite=True)
    ((again, *_),) = rows(target, "SELECT * FROM dprelease_releases")
    assert again == digest  # its tables are still there
    assert len(rows(target, "SELECT * FROM by_city")) == 3


def _run(path: Path, sql: str) -> None:
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as link:
            link.execute(sql)
        return
    link = sqlite3.connect(path)
    link.execute(sql)
    link.commit()
    link.close()


@pytest.mark.each
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fails_at", ["create", "run", "commit"])
@pytest.mark.parametrize("is_new", [True, False])
def test_failed_database_export_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fails_at: str, is_new: bool
) -> None:
    """At the last call of each method."""
    folder, target = publish_release(tmp_path), tmp_path / name
    if not is_new:
        _run(target, "CREATE TABLE mine (a INTEGER)")
    kind = DuckDBFile if name == "r.duckdb" else SQLiteFile
    whole = getattr(kind, fails_at)

    def fails(self: Any, *words: Any) -> Any:
        if fails_at == "commit" or words[0] == "all" or words[0].startswith("INSERT INTO"):
            raise DatabaseError("no space left on device")
        return whole(self, *words)

    monkeypatch.setattr(kind, fails_at, fails)
    with pytest.raises(OutputError, match=r"DP-EXPORT-011.*no space left on device"):
        dprelease.export_to_database(folder, target)
    assert sorted(path.name for path in tmp_path.glob("r.*")) == ([] if is_new else [name])
    if not is_new:
        tables = "SELECT table_name FROM duckdb_tables()"
        sql = "SELECT name FROM sqlite_master" if kind is SQLiteFile else tables
        assert rows(target, sql) == [("mine",)]


@pytest.mark.parametrize("name", FILES)
def test_a_full_disk_is_a_failure_of_the_system(tmp_path: Path, name: str) -> None:
    folder = publish_release(tmp_path)
    limit, largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, largest))
    try:
        with pytest.raises(OutputError, match="DP-EXPORT-011") as refused:
            dprelease.export_to_database(folder, tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, largest))
    assert refused.value.exit_code == EXIT_UNEXPECTED
    assert str(tmp_path) not in str(refused.value)
    assert sorted(path.name for path in tmp_path.glob("r.*")) == []


@pytest.mark.parametrize("name", FILES)
def test_an_incomplete_release_in_a_database_is_not_taken_as_present(
    tmp_path: Path, name: str
) -> None:
    folder, target = publish_release(tmp_path), tmp_path / name
    dprelease.export_to_database(folder, target)
    _run(target, 'DROP TABLE "all"')
    with pytest.raises(OutputError, match=r"DP-EXPORT-012.*'by_city'"):
        dprelease.export_to_database(folder, target)
    written = dprelease.export_to_database(folder, target, overwrite=True)
    assert written.tables == ("by_city", "all")
    assert len(rows(target, "SELECT * FROM dprelease_releases")) == 1


@pytest.mark.parametrize("name", FILES)
def test_a_failed_export_removes_no_file_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A second export, which begins while the file is new, must not delete what the first wrote."""
    folder, target = publish_release(tmp_path), tmp_path / name
    other = publish_release(tmp_path / "other")
    kind = DuckDBFile if name == "r.duckdb" else SQLiteFile
    opened, found = kind.__init__, []

    def open_while_another_export_begins(self: Any, path: str) -> None:
        monkeypatch.setattr(kind, "__init__", opened)
        with pytest.raises(OutputError, match="DP-OUTPUT-006") as caught:
            dprelease.export_to_database(other, target)
        found.append(caught.value)
        opened(self, path)

    monkeypatch.setattr(kind, "__init__", open_while_another_export_begins)
    assert dprelease.export_to_database(folder, target).tables == ("by_city", "all")
    assert found
    with pytest.raises(OutputError, match="DP-EXPORT-012"):
        dprelease.export_to_database(other, target)
    assert rows(target, "SELECT digest FROM dprelease_releases") == [
        (dprelease.PublishedRelease(folder).digest,)
    ]
    assert sorted(path.name for path in tmp_path.glob(".r.*")) == []


def test_wrong_database_exports_are_refused(tmp_path: Path) -> None:
    folder = publish_release(tmp_path)
    (tmp_path / "text.duckdb").write_text("no database" * 1000)
    (tmp_path / "text.sqlite").write_text("no database" * 1000)
    (tmp_path / "folder.duckdb").mkdir()
    for name, code in {
        "text.duckdb": "DP-EXPORT-011",
        "text.sqlite": "DP-EXPORT-011",
        "folder.duckdb": "DP-EXPORT-011",
        "nowhere/r.sqlite": "DP-EXPORT-011",
        "r.csv": "DP-EXPORT-011",
        "r": "DP-EXPORT-011",
    }.items():
        with pytest.raises(OutputError, match=code):
            dprelease.export_to_database(folder, tmp_path / name)
    for where in ("s3://bucket/r.duckdb", "~/r.duckdb"):
        with pytest.raises(DpReleaseError, match="DP-PATH"):
            dprelease.export_to_database(folder, where)
    secret = "postgresql://me:SECRET-4711@host/db"
    for address in (secret, "postgresql://host/db?password=SECRET-4711", "postgresql://h/d?x=1"):
        with pytest.raises(OutputError, match="DP-EXPORT-011") as caught:
            dprelease.export_to_database(folder, address)
        assert "SECRET" not in str(caught.value)
    with pytest.raises(OutputError, match=r"DP-EXPORT-011.*schemas"):
        dprelease.export_to_database(folder, tmp_path / "r.sqlite", schema="x")
    with pytest.raises(OutputError, match="DP-REPORT-003"):
        dprelease.export_to_database(folder, tmp_path / "r.sqlite", language="xx")
    with pytest.raises(OutputError, match="DP-OUTPUT-011"):
        dprelease.export_to_database(tmp_path / "nothing", tmp_path / "r.sqlite")
    (folder / "all.parquet").write_bytes(b"changed")
    with pytest.raises(DpReleaseError, match="DP-VERIFY-004"):
        dprelease.export_to_database(folder, tmp_path / "r.sqlite")
    assert not (tmp_path / "r.sqlite").exists()


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [2**62, -(2**62), None]),
    "decimal": (
        pa.decimal128(38, 3),
        [Decimal("12345678901234567890.125"), Decimal("0.000"), None],
    ),
    "number": (pa.float64(), [0.1, float("inf"), None]),
    "truth": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "text": (pa.string(), ['it\'s "quoted"; --', "Zürich 🙂", None]),
    'odd "name"; DROP TABLE x': (pa.int64(), [1, 2, 3]),
}


def release_of_all_types(folder: Path) -> PublishedRelease:
    """Return a release with a column of each type."""
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in VALUES.items()})
    formats.write_table(table, folder / "all_types.parquet")
    columns = tuple(
        ColumnMetadata(name, str(kind), Role.VALUE, name, label={"en": f"it's {name}"})
        for name, (kind, _) in VALUES.items()
    )
    described = TableMetadata(
        "all_types", "all_types.parquet", "q", columns, 3, label={"en": "x'y"}
    )
    about: Any = None
    record: Any = type("Record", (), {"title": "it's"})
    return PublishedRelease(folder, record, Metadata(about, ("en",), (described,)))


def write_all_types(target: database.Database, folder: Path) -> None:
    """Write the release of all types into a database, and close it."""
    release = release_of_all_types(folder)
    database.write_release(target, release, '{"digest": "d"}', overwrite=False, language="en")
    target.commit()
    target.close()


@pytest.mark.parametrize("name", FILES)
def test_databases_keep_values_of_all_types(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_all_types((DuckDBFile if name == "r.duckdb" else SQLiteFile)(str(path)), tmp_path)
    found = rows(path, "SELECT * FROM all_types")

    assert found == [
        tuple(stored_value(name, values[i]) for _, values in VALUES.values()) for i in range(3)
    ]


def test_export_command_writes_databases(tmp_path: Path) -> None:
    folder, target = str(publish_release(tmp_path)), str(tmp_path / "r.duckdb")
    run = CliRunner()
    done = run.invoke(cli.app, ["export", folder, "--to", target, "--json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"tables": ["by_city", "all"]})
    done = run.invoke(cli.app, ["export", folder, "--to", target])
    assert (done.exit_code, done.stdout) == (0, "It is already there.\n")
    done = run.invoke(cli.app, ["export", folder, "--to", target, "--overwrite"])
    assert (done.exit_code, done.stdout) == (0, "Wrote 2 tables into the database.\n")
    for words in (
        ["--to", target, "--to", "csv"],
        ["--to", target, "--output", str(tmp_path / "x")],
        ["--to", "csv", "--overwrite"],
        ["--to", "csv", "--schema", "x"],
    ):
        assert run.invoke(cli.app, ["export", folder, *words]).exit_code == 2
