"""Versions of lakehouse tables: a run reads one of them, which its manifest names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import canonical
from dprelease.errors import DpReleaseError, State
from dprelease.exact.sources.delta_reader import DeltaReader
from tests.exact.iceberg_catalogue import FolderCatalogue
from tests.manifest_files import with_digest
from tests.release.build import write

SOURCE = "source: people.csv"


def table_of(hundreds: range) -> pa.Table:
    """Return a row for each of some hundreds of people."""
    rows = range(100 * hundreds.start, 100 * hundreds.stop)
    columns = {"person": [*rows], "city": ["Bern"] * len(rows), "age": [30] * len(rows)}
    return pa.table({**columns, "pay": [100.0] * len(rows)})


def release(folder: Path, version: int | None = None, more: str = "") -> Path:
    """Return a release of a table with 1,000 people in version 0, 3,000 in 1, and 500 in 2."""
    path = write(folder)
    declared = "" if version is None else f", version: {version}"
    schema = folder / "people.yaml"
    source = f"source: {{path: people/, format: delta{declared}}}\nowner: office"
    schema.write_text(schema.read_text().replace(SOURCE, source))
    path.write_text(path.read_text().replace("epsilon: 1,", "epsilon: 100,") + more)
    write_deltalake(folder / "people", table_of(range(10)))
    write_deltalake(folder / "people", table_of(range(10, 30)), mode="append")
    DeltaTable(folder / "people").delete("person >= 500")
    return path


def people(folder: Path) -> int:
    """Return the published number of people in hundreds: the noise is far below 50."""
    return round(pq.read_table(folder / "by_city.parquet")["people"][0].as_py() / 100)


def versions(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text())["declaration"].get("table_versions")


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, [*words])
    return done.exit_code, done.output


@pytest.mark.parametrize(("version", "rows"), [(0, 10), (1, 30), (2, 5), (None, 5)])
def test_manifest_names_the_delta_version(version: int | None, rows: int, tmp_path: Path) -> None:
    path = release(tmp_path, version)
    folder = dprelease.run(path).folder
    held = 2 if version is None else version
    assert (people(folder), versions(folder)) == (rows, {"people": str(held)})
    assert dprelease.verify(folder).ok
    write_deltalake(tmp_path / "people", table_of(range(7)), mode="append")
    assert dprelease.verify(folder).ok  # which reads no source
    assert not dprelease.run(path, if_published="skip").published
    (tmp_path / "people.yaml").write_text(
        (tmp_path / "people.yaml").read_text().replace("format: delta", f"format: delta, version: {held}")
        if version is None else (tmp_path / "people.yaml").read_text()
    )  # fmt: skip
    assert people(dprelease.run(path, output=tmp_path / "again").folder) == rows


def test_all_queries_read_the_version_at_the_start(tmp_path: Path) -> None:
    """Also if the table has a new version, and loses files, between the plan and the rows."""
    path, opened = release(tmp_path), []
    real = DeltaReader.open

    def late(self: DeltaReader, *arguments: Any) -> Any:
        opened.append(real(self, *arguments))
        write_deltalake(tmp_path / "people", table_of(range(100)), mode="overwrite")
        return opened[-1]

    with mock.patch.object(DeltaReader, "open", late):
        folder = dprelease.run(path).folder
    assert (people(folder), versions(folder)) == (5, {"people": "2"})
    assert {one.lake.version for one in opened} == {2}


LEDGER = "ledger: ledger.sqlite\n"


@pytest.mark.parametrize(
    ("version", "words"),
    [(0, "do not exist any more"), (9, "no version 9"), (None, "can't be opened")],
)
def test_unreadable_versions_are_refused_before_charge(
    version: int | None, words: str, tmp_path: Path
) -> None:
    path = release(tmp_path, version, LEDGER)
    file = str(tmp_path / "ledger.sqlite")
    owned = [
        "--table",
        "people",
        "--owner",
        "office",
        "--unit",
        "person",
        "--epsilon",
        "100",
        "--delta",
        "1e-3",
    ]
    assert command("ledger", "init", file, *owned)[0] == 0
    DeltaTable(tmp_path / "people").vacuum(0, dry_run=False, enforce_retention_duration=False)
    if version is None:
        for commit in (tmp_path / "people/_delta_log").iterdir():
            commit.write_bytes(b"secret")
    with pytest.raises(DpReleaseError, match=words) as caught:
        dprelease.run(path)
    assert caught.value.state in (State.NOTHING, None) or "no row was read" in str(caught.value)
    assert "secret" not in str(caught.value)
    balance = dprelease.read_ledger(file)["office/people"]
    assert (balance.spent, balance.releases) == (0, 0)
    assert not (tmp_path / "out/people").exists()


@pytest.mark.parametrize(
    "forged", [{"people": "1"}, {"people": "2", "other": "0"}, {"people": "x"}, {"people": 2}]
)
def test_forged_version_in_manifest_is_found(forged: Any, tmp_path: Path) -> None:
    folder = dprelease.run(release(tmp_path, 2)).folder
    record = json.loads((folder / "manifest.json").read_text())
    record["declaration"]["table_versions"] = forged
    (folder / "manifest.json").write_bytes(canonical(with_digest(record)))
    assert not dprelease.verify(folder).ok


def test_frames_have_no_version(tmp_path: Path) -> None:
    path = release(tmp_path)
    (tmp_path / "people").rename(tmp_path / "elsewhere")
    folder = dprelease.run(path, frames={"people": table_of(range(8)).to_pandas()}).folder
    assert (people(folder), versions(folder)) == (8, None)
    again = dprelease.run(path, sources={"people": f"{tmp_path}/elsewhere/"}, overwrite=True).folder
    assert (people(again), versions(again)) == (5, {"people": "2"})
    assert dprelease.verify(again).ok


def test_versions_in_other_commands(tmp_path: Path) -> None:
    """`init`, `check`, `plan`, `profile` and `sql` of a table."""
    path = release(tmp_path)
    status, sketched = command("init", str(tmp_path / "people"), "--unit", "person")
    assert (status, "version: 2" in sketched, 'format: "delta"' in sketched) == (0, True, True)
    status, peeked = command("init", str(tmp_path / "people"), "--unit", "person", "--peek")
    assert (status, 'values: ["Bern"]' in peeked) == (0, True)
    file = next((tmp_path / "people").glob("*.parquet"))
    status, said = command("init", str(file))
    assert (status, "DP-DATA-024" in said, "format: delta" in said) == (2, True, True)
    assert command("check", str(path))[0] == 0
    assert command("plan", str(path))[0] == 0
    path.write_text(path.read_text() + "engine: spark\n")
    status, said = command("check", str(path))
    assert (status, "DP-SPARK-001" in said) == (0, True)
    path.write_text(path.read_text().replace("engine: spark\n", ""))
    command("profile", str(path), "--output", str(tmp_path / "profile.json"), "--json")
    found = dprelease.sql("SELECT COUNT(*) AS n FROM people", tmp_path / "people.yaml", epsilon=10)
    assert round(found["n"].iloc[0] / 100) == 5
    (tmp_path / "people/_delta_log" / f"{1:020}.json").write_text("{")
    assert "DP-DATA-010" in command("init", str(tmp_path / "people"))[1]


def test_manifest_names_the_iceberg_snapshot(tmp_path: Path) -> None:
    """Also of a metadata file; a later snapshot changes nothing, and a public table is none of it."""
    path = write(tmp_path)
    catalogue = FolderCatalogue(tmp_path / "people")
    table = catalogue.create(table_of(range(1)).schema)
    table.append(table_of(range(10)))
    first, metadata = table.current_snapshot(), Path(catalogue.current).name
    table.append(table_of(range(10, 30)))
    later = table.current_snapshot()
    assert first is not None
    assert later is not None
    path.write_text(path.read_text().replace("epsilon: 1,", "epsilon: 100,"))
    schema = (tmp_path / "people.yaml").read_text()
    for source, rows, held in [
        (f"people, snapshot: {first.snapshot_id}", 10, first.snapshot_id),
        (f"people/metadata/{metadata}", 10, first.snapshot_id),
        (f"people/metadata/{metadata.replace('00001', '00002')}", 0, None),
        (f"people, snapshot: {later.snapshot_id}", 30, later.snapshot_id),
        ("people", 0, None),
    ]:
        declared = f"source: {{path: {source}, format: iceberg}}"
        (tmp_path / "people.yaml").write_text(schema.replace(SOURCE, declared))
        if held is None:
            with pytest.raises(DpReleaseError, match="DP-DATA-0"):
                dprelease.run(path, overwrite=True)
            continue
        folder = dprelease.run(path, overwrite=True).folder
        assert (people(folder), versions(folder)) == (rows, {"people": str(held)})
        assert dprelease.verify(folder).ok
    status, sketched = command("init", str(tmp_path / "people"), "--unit", "person")
    assert (status, f"snapshot: {later.snapshot_id}" in sketched, "catalogue" in sketched) == (
        0,
        True,
        True,
    )
    status, peeked = command("init", str(tmp_path / "people"), "--unit", "person", "--peek")
    assert (status, 'values: ["Bern"]' in peeked) == (0, True)
    public = f"table: areas\nsource: {{path: people/metadata/{metadata}, format: iceberg}}\npublic: true\n"
    (tmp_path / "areas.yaml").write_text(public + "columns:\n  person: {type: integer}\n")
    declared = f"source: {{path: people, format: iceberg, snapshot: {later.snapshot_id}}}"
    (tmp_path / "people.yaml").write_text(schema.replace(SOURCE, declared))
    with pytest.raises(DpReleaseError, match="DP-OUTPUT-012"):
        dprelease.run(path, output=tmp_path / "people/data")
    text = path.read_text().replace("[people.yaml]", "[people.yaml, areas.yaml]")
    path.write_text(
        text.replace(
            "    where: age", "    join: {table: areas, on: {person: person}}\n    where: age"
        )
    )
    with pytest.raises(DpReleaseError, match="DP-JOIN-003"):
        dprelease.run(path, overwrite=True)


def test_output_inside_the_table_is_refused(tmp_path: Path) -> None:
    path = release(tmp_path)
    for output in (tmp_path / "people/out", tmp_path / "people"):
        with pytest.raises(DpReleaseError, match="DP-OUTPUT-012"):
            dprelease.run(path, output=output, overwrite=True)


def test_public_table_at_path_of_private_table_is_refused(tmp_path: Path) -> None:
    path = release(tmp_path, 2)
    public = "table: areas\nsource: {path: ./people, format: delta, version: 0}\npublic: true\n"
    (tmp_path / "areas.yaml").write_text(public + "columns:\n  person: {type: integer}\n")
    text = path.read_text().replace("[people.yaml]", "[people.yaml, areas.yaml]")
    path.write_text(
        text.replace(
            "    where: age", "    join: {table: areas, on: {person: person}}\n    where: age"
        )
    )
    with pytest.raises(DpReleaseError, match="DP-JOIN-003"):
        dprelease.run(path)
