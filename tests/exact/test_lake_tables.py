"""Files of lake tables, unfinished jobs and side files of databases are refused."""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from dprelease.errors import DataError, DpReleaseError
from dprelease.exact.engines import open_duckdb
from dprelease.planning.declaration_findings import load_declaration
from dprelease.scaffold.sketch import sketch
from dprelease.schema.load import Declared, table_from_mapping
from tests import processes
from tests.messages import write

ROWS = pd.DataFrame({"person": [1, 2], "sex": ["F", "M"]})
COLUMNS = {"person": {"type": "integer"}, "sex": {"type": "category", "values": ["F", "M"]}}


def touch(*names: str) -> Callable[[Path], None]:
    """Return what makes empty files in a folder; of a name that ends in / a folder."""

    def make(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).mkdir() if name.endswith("/") else (folder / name).touch()

    return make


TABLES = {
    "Delta": touch("_delta_log/00000000000000000000.json"),
    "Iceberg": touch("metadata/00001-8fd1.metadata.json"),
    "Iceberg of Hadoop": touch("metadata/v1.gz.metadata.json", "metadata/version-hint.text"),
    "Hudi": touch(".hoodie/hoodie.properties"),
    "Paimon": touch("snapshot/LATEST", "schema/schema-0", "manifest/manifest-0"),
}
PLACES = [".", "sex=F", "data", "data/0101/sex=F/day=2024-01-01", "a/b/c/d/e/f/g/h"]
"""Where files of rows lie, below the root of the table."""
WAYS = ["{root}/", "{root}/{place}/", "{root}/{place}/*.parquet", "{root}/{place}/p.parquet",
        "{root}/**/*.parquet", "*/**/p.parquet", "link.parquet", "linked/"]  # fmt: skip


def table(folder: Path, path: str, kind: str | None = None, **more: str) -> Declared:
    source = {"path": path, **more, **({} if kind is None else {"format": kind})}
    return table_from_mapping({"table": "people", "source": source, "columns": COLUMNS}, folder)


def assert_refused(folder: Path, path: str, kind: str | None = None, **more: str) -> str:
    with (
        pytest.raises(DataError, match="DP-DATA-024") as caught,
        open_duckdb(table(folder, path, kind, **more), None),
    ):
        pass
    assert "no row was read" in str(caught.value)
    return str(caught.value)


def rows(folder: Path, place: str = ".", name: str = "p.parquet") -> None:
    (folder / place).mkdir(parents=True, exist_ok=True)
    ROWS.to_parquet(folder / place / name)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", TABLES)
def test_files_of_lake_tables_are_refused(
    kind: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a file is found and wherever it is: a run and `init` refuse it."""
    root = tmp_path / "people"
    rows(root, place)
    TABLES[kind](root)
    (tmp_path / "link.parquet").symlink_to(root / place / "p.parquet")
    (tmp_path / "linked").symlink_to(root / place)
    monkeypatch.chdir(tmp_path)
    for way in WAYS:
        path = way.format(root="people", place=place)
        said = assert_refused(tmp_path, path)
        assert f"of the format {kind.split()[0]}" in said
        assert "live.parquet" in said or "'live'" in said
        with pytest.raises(DataError, match=r"DP-DATA-0(24|10)"):  # its log is empty
            sketch(Path(path))


def test_folders_next_to_a_lake_table_are_read(tmp_path: Path) -> None:
    for i, make in enumerate(TABLES.values()):
        make(tmp_path / f"other{i}")
    touch("metadata/readme.txt", "snapshot/", "data/metadata/", "_SUCCESS", "._SUCCESS.crc")(
        tmp_path
    )
    rows(tmp_path, "data")
    for path in ("data/", "data/*.parquet", "data/p.parquet"):
        with open_duckdb(table(tmp_path, path), None):
            assert "table: " in sketch(tmp_path / path)


def test_files_with_names_of_ducklake_are_refused(tmp_path: Path) -> None:
    name = "ducklake-019a0e44-5f5d-7c83-9a57-4b6ac1ed6a09"
    for end in ("", "-delete"):
        rows(tmp_path, name=f"{name}{end}.parquet")
    assert "of the format DuckLake" in assert_refused(tmp_path, f"{name}.parquet")
    assert "of the format DuckLake" in assert_refused(tmp_path, "*.parquet")


def test_values_from_a_lake_table_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        "people.yaml",
        "values: [F, M]",
        "values_from: {file: codes/data/p.parquet, column: sex}",
    )
    rows(tmp_path / "codes", "data")
    load_declaration(tmp_path / "release.yaml")
    TABLES["Delta"](tmp_path / "codes")
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-004") as caught:
        load_declaration(tmp_path / "release.yaml")
    assert "of the format Delta" in str(caught.value)


JOBS = {
    "_temporary": touch("_temporary/0/_temporary/"),
    "_started_": touch("_started_7", "_committed_5", "_started_5"),
    "_spark_metadata": touch("_spark_metadata/0"),
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("place", [".", "sex=F", "sex=F/day=2024-01-01"])
@pytest.mark.parametrize("marker", JOBS)
def test_output_of_unfinished_jobs_is_refused(marker: str, place: str, tmp_path: Path) -> None:
    rows(tmp_path / "people", place)
    touch("people/_SUCCESS")(tmp_path)
    for path in ("people/", f"people/{place}/", "people/**/*.parquet", f"people/{place}/p.parquet"):
        with open_duckdb(table(tmp_path, path), None):
            pass
    JOBS[marker](tmp_path / "people")
    for path in ("people/", f"people/{place}/", "people/**/*.parquet", f"people/{place}/p.parquet"):
        assert f"'{marker}'" in assert_refused(tmp_path, path)


def test_databricks_markers_of_finished_jobs_are_accepted(tmp_path: Path) -> None:
    rows(tmp_path / "people")
    touch("_started_5", "_committed_5", "_SUCCESS")(tmp_path / "people")
    with open_duckdb(table(tmp_path, "people/"), None):
        pass


def test_hidden_names_are_ignored_or_refused(tmp_path: Path) -> None:
    """A folder ignores them, as in Spark and Arrow; a pattern that matches them is refused."""
    rows(tmp_path / "people[1]")
    rows(tmp_path / "people[1]", name="_p.parquet")
    rows(tmp_path / "people[1]", "_old")
    folder = tmp_path / "people[1]"
    with open_duckdb(table(folder, "./"), None):
        pass
    for path in ("*.parquet", "**/*.parquet", "*/p.parquet"):
        assert "begin a part of the pattern with _" in assert_refused(folder, path)
    for path in ("_*.parquet", "_old/*.parquet", "_p.parquet", "p*.parquet"):
        with open_duckdb(table(folder, path), None):
            pass


SIDE = {
    "sqlite": ("-wal", "-journal", "-shm"),
    "duckdb": (".wal", ".wal.checkpoint", ".wal.recovery"),
}


def create_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


THINGS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": create_socket,
    "a link": lambda path: path.symlink_to("nowhere"),
    "a link to a pipe": lambda path: (os.mkfifo(path.with_name("f")), path.symlink_to("f")),
}


def database(folder: Path, kind: str) -> Path:
    path = folder / f"people.{kind}"
    if kind == "sqlite":
        with sqlite3.connect(path) as link:
            link.execute("CREATE TABLE people (person INTEGER, sex TEXT)")
            link.execute("INSERT INTO people VALUES (1, 'F'), (2, 'M')")
        link.close()
    else:
        with duckdb.connect(path) as made:
            made.execute("CREATE TABLE people AS SELECT 1 AS person, 'F' AS sex")
    return path


@pytest.mark.share(0.5)
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize(("kind", "ending"), [(k, e) for k, ends in SIDE.items() for e in ends])
def test_unusual_side_files_of_databases_are_refused(
    kind: str, ending: str, thing: str, tmp_path: Path
) -> None:
    path = database(tmp_path, kind)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / path.name).symlink_to(path)
    THINGS[thing](Path(f"{path}{ending}"))
    for name in (path, tmp_path / "link" / path.name):
        said = assert_refused(tmp_path, str(name), kind, table="people")
        assert f"'{path.name}{ending}'" in said
        assert "it is a" in said
        with pytest.raises(DataError, match="DP-DATA-024"):
            sketch(name, table="people")


@pytest.mark.share(0.4)
@pytest.mark.parametrize("kind", SIDE)
def test_run_and_sketch_do_not_wait_for_a_pipe(kind: str, tmp_path: Path) -> None:
    """In real processes, because an engine that opens a pipe can't be interrupted."""
    write(
        tmp_path,
        "people.yaml",
        "source: people.csv",
        f"source: {{path: people.{kind}, table: people}}",
    )
    database(tmp_path, kind)
    os.mkfifo(tmp_path / f"people.{kind}{SIDE[kind][0]}")
    for words in (["run", "release.yaml", "--json"], ["init", f"people.{kind}"]):
        command = [sys.executable, "-m", "dprelease", *words]
        ended = processes.run(command, cwd=tmp_path, capture_output=True)
        assert ended.returncode == 2, ended.stderr
        assert b"DP-DATA-024" in ended.stdout + ended.stderr
        assert b"it is a pipe" in ended.stdout + ended.stderr
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
