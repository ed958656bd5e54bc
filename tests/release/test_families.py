"""Families with a step: measurement, computation, publication, verification, and failures."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.documents.encoding import canonical, sha256_of
from dprelease.errors import DpReleaseError, OutputError, State
from dprelease.exact import duckdb
from dprelease.exact.duckdb import Engine
from dprelease.exact.engines import open_duckdb
from dprelease.exact.results.true_table import ExactTable
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.planning.prepare import prepare
from dprelease.postprocess import families
from dprelease.postprocess.families import Batch, NoisedTable
from dprelease.query.resolve import Query
from dprelease.release import execute
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.system.prefetch import Spread, in_threads
from tests.manifest_files import with_digest
from tests.processes import ended
from tests.release import tree_sums_step
from tests.release.tree_sums_step import AddingUp
from tests.replay import Keyed
from tests.rewriting import rewrite

SCHEMA = """\
table: people
owner: office
source: people.csv
privacy_unit: {}
columns:
  city: {type: category, values: [Bern, Oslo, Rome]}
  sex: {type: category, values: [f, m]}
  pay: {type: number, lower: 0, upper: 100, step: 0.5}
"""
RELEASE = """\
title: A family and a table
tables: [people.yaml]
budget: {epsilon: 1}
mechanism: discrete_laplace
queries:
  adding:
    from: people
    rollup: [city, sex]
    columns: {n: {count: "*"}}
  alone:
    from: people
    group_by: [city]
    columns: {pay: {sum: pay}}
output: out/people
"""
MEASURED = ["adding_total", "adding_city", "adding_city_sex"]
FILES = sorted(
    ["alone.parquet", "manifest.json"]
    + [f"{folder}/{name}.parquet" for folder in ("measurements", "tables") for name in MEASURED]
)


@pytest.fixture(autouse=True)
def use_tree_sums_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FAMILY_STEPS", [tree_sums_step.step_for_query])


def write_family(folder: Path, text: str = RELEASE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = (f"{('Bern', 'Oslo', 'Rome')[i % 3]},{'fm'[i % 2]},{i % 80}.5\n" for i in range(500))
    (folder / "people.csv").write_text("city,sex,pay\n" + "".join(rows))
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(text)
    return folder / "release.yaml"


def publish_family(folder: Path, **more: Any) -> Path:
    return run(read_declaration(write_family(folder)), bits=Keyed("family"), **more)


def file_names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("asked", ['count: "*"', "sum: pay", "sum: pay, round_to: 50"])
def test_family_is_published_and_verified(asked: str, tmp_path: Path) -> None:
    """Measurements and tables that add up, all with digests; other queries are unchanged."""
    text = RELEASE.replace('n: {count: "*"}', f"n: {{{asked}}}")
    folder = run(read_declaration(write_family(tmp_path, text)), bits=Keyed("family"))
    assert file_names(folder) == FILES
    record = json.loads((folder / "manifest.json").read_text())
    assert {file["name"] for file in record["files"]} == {*FILES} - {"manifest.json"}
    (told,) = record["families"]
    assert (told["step"], told["tables"]) == ("adding_up", MEASURED)
    assert told["record"] == {"rule": "the last part takes the rest", "levels": 3}
    total, city, finest = (pq.read_table(folder / f"tables/{name}.parquet") for name in MEASURED)
    assert total["n"].to_pylist() == [sum(city["n"].to_pylist())] == [sum(finest["n"].to_pylist())]
    drawn = pq.read_table(folder / "measurements/adding_city_sex.parquet")
    assert drawn.schema.field("n").type == pa.int64()
    assert drawn["n"].to_pylist() != finest["n"].to_pylist()
    if "round_to" in asked:
        assert any(steps % 100 for steps in drawn["n"].to_pylist())  # nothing is done to them
    report = dprelease.verify(folder)
    assert report.ok, report.findings
    assert "the tables of 'adding' follow from its measurements" in report.checked
    assert "they pass the second check of 'adding_up'" in report.checked


def test_step_does_not_change_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits give the same integers, in the family and after it."""
    folder = publish_family(tmp_path / "with")
    monkeypatch.setattr(families, "FAMILY_STEPS", [])
    plain = publish_family(tmp_path / "without")
    assert "families" not in json.loads((plain / "manifest.json").read_text())
    assert (folder / "alone.parquet").read_bytes() == (plain / "alone.parquet").read_bytes()
    for name in MEASURED:
        held = pq.read_table(folder / f"measurements/{name}.parquet")
        noised = pq.read_table(plain / f"{name}.parquet")
        assert held.equals(noised.select(held.column_names))  # measurements have no quality


class EngineWithOwnNoise(Engine):
    """An engine that adds noise where the cells are."""

    def noisy_vectors(
        self, query: Query, noise: Callable[[ExactTable], dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        return iter([noise(self.run(query))])


def test_noise_drawn_by_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Spark: the step gets the same kind of measurements."""
    monkeypatch.setattr(duckdb, "Engine", EngineWithOwnNoise)
    folder = run(read_declaration(write_family(tmp_path)))
    assert file_names(folder) == FILES
    assert dprelease.verify(folder).ok


def test_answer_in_memory_goes_through_the_step(tmp_path: Path) -> None:
    declaration = read_declaration(write_family(tmp_path))
    plan = prepare(declaration)[1]
    family, _ = plan.families
    opening = open_duckdb(family.tables[0].query.declared, None)
    found = execute.answer_family(family, plan.columns, opening, nullcontext())
    assert sorted(found) == [name.removesuffix(".parquet") for name in FILES if "/" in name]
    sums = {sum(found[f"tables/{name}"]["n"].to_pylist()) for name in MEASURED}
    assert len(sums) == 1


def test_table_without_cells_is_published(tmp_path: Path) -> None:
    """If the step leaves out all rows, the columns are still there."""
    declaration = read_declaration(write_family(tmp_path))
    plan = prepare(declaration)[1]
    family, _ = plan.families
    noised = [
        NoisedTable(t, lambda _, size=t.query.keys.size: iter([np.zeros(size, np.int64)]))
        for t in family.tables
    ]
    from dprelease.tables.family_tables import schema_of_output, step_tables

    *_, output = family.outputs
    for given in (AddingUp().values(noised), iter(())):  # an empty batch, and none
        made = {piece.name: piece.rows for piece in step_tables(family.outputs, given, {})}
        assert len(made[output.name]) == 0
        for each in family.outputs:
            columns = made[each.name].schema
            assert schema_of_output(each) == [(c.name, str(c.type)) for c in columns]


def test_bytes_of_files_do_not_depend_on_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches smaller and larger than a written piece."""
    monkeypatch.setattr("dprelease.tables.family_tables.PIECE_ROWS", 3)
    folder = publish_family(tmp_path / "by two")

    def at_once(
        self: AddingUp, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        by_name: dict[str, list[Batch]] = {}
        for name, batch in VALUES(self, noised):
            by_name.setdefault(name, []).append(batch)
        for name, batches in by_name.items():
            columns = {
                column: np.concatenate([batch.values[column] for batch in batches])
                for column in batches[0].values
            }
            yield name, Batch(np.concatenate([batch.cells for batch in batches]), columns)

    monkeypatch.setattr(AddingUp, "values", at_once)
    assert dprelease.verify(folder).ok
    whole = publish_family(tmp_path / "whole")
    for name in FILES:
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def alter(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rewrite(path, change)


def with_first(column: str, value: object) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        held = table[column].to_pylist()
        array = pa.array([value, *held[1:]], table[column].type)
        return table.set_column(table.column_names.index(column), column, array)

    return change


def reseal(folder: Path) -> None:
    """Give the manifest the digests and rows of the files as they are now, and its own."""
    record = json.loads((folder / "manifest.json").read_text())
    for file in record["files"]:
        file["sha256"] = sha256_of(folder / file["name"])
        file["rows"] = pq.read_metadata(folder / file["name"]).num_rows
    del record["digest"]
    (folder / "manifest.json").write_bytes(canonical(with_digest(record)))


FORGED: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "a value": ("tables/adding_city", with_first("n", 7), "DP-VERIFY-012"),
    "a standard error": ("tables/adding_city", with_first("se", 0.25), "DP-VERIFY-012"),
    "a missing error": ("tables/adding_city", with_first("se", None), "DP-VERIFY-012"),
    "a flag": ("tables/adding_total", with_first("moved", True), "DP-VERIFY-012"),
    "a key": ("tables/adding_city", with_first("city", "Rome"), "DP-VERIFY-012"),
    "fewer rows": ("tables/adding_city_sex", lambda t: t.slice(1), "DP-VERIFY-012"),
    "no rows": ("tables/adding_city_sex", lambda t: t.slice(0, 0), "DP-VERIFY-012"),
    "more rows": (
        "tables/adding_city", lambda t: pa.concat_tables([t, t.slice(2)]), "DP-VERIFY-012",
    ),
    "another column": ("tables/adding_city", lambda t: t.drop_columns(["se"]), "DP-VERIFY-012"),
    "a measurement": ("measurements/adding_city", with_first("n", 7), "DP-VERIFY-012"),
    "a missing measurement": ("measurements/adding_city", with_first("n", None), "DP-VERIFY-006"),
    "beyond all noise": ("measurements/adding_city", with_first("n", 2**63 - 1), "DP-VERIFY-006"),
    "a measured key": ("measurements/adding_city", with_first("city", "Oslo"), "DP-VERIFY-006"),
    "fewer cells": ("measurements/adding_city", lambda t: t.slice(1), "DP-VERIFY-006"),
}  # fmt: skip


@pytest.mark.share(0.4)
@pytest.mark.parametrize("what", FORGED)
def test_tables_that_contradict_measurements_are_found(what: str, tmp_path: Path) -> None:
    """All digests are right."""
    folder = publish_family(tmp_path)
    name, change, code = FORGED[what]
    alter(folder / f"{name}.parquet", change)
    codes = [finding.code for finding in dprelease.verify(folder).findings]
    assert "DP-VERIFY-004" in codes
    reseal(folder)
    codes = {finding.code for finding in dprelease.verify(folder).findings}
    rows = {"DP-VERIFY-006"} if "rows" in what else set()  # the manifest's number of them as well
    assert codes == {code} | rows


def test_forged_record_of_family_is_found(tmp_path: Path) -> None:
    folder = publish_family(tmp_path)
    record = json.loads((folder / "manifest.json").read_text())
    record["families"][0]["record"]["levels"] = 4
    del record["digest"]
    (folder / "manifest.json").write_bytes(canonical(with_digest(record)))
    assert [e.code for e in dprelease.verify(folder).findings] == ["DP-VERIFY-002"]


def test_second_check_finds_a_wrong_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong step repeats its own mistake in the first check, but not in the second."""

    def wrong(
        self: AddingUp, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        for held in noised:
            drawn = held.vector("n")
            for batch in self._batches(held, drawn, drawn, finest=False):
                yield f"tables/{held.table.query.name}", batch

    monkeypatch.setattr(AddingUp, "values", wrong)
    folder = publish_family(tmp_path)
    (finding,) = dprelease.verify(folder).findings
    assert (finding.code, "totals differ" in finding.cause) == ("DP-VERIFY-013", True)


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file": (lambda f: (f / "tables/more.csv").write_text("x"), "DP-VERIFY-005"),
    "a folder": (lambda f: (f / "tables/more").mkdir(), "DP-VERIFY-005"),
    "an empty folder beside": (lambda f: (f / "more").mkdir(), "DP-VERIFY-005"),
    "nothing": (lambda f: (f / "tables/adding_city.parquet").unlink(), "DP-VERIFY-004"),
    "a link in place of a file": (
        lambda f: (
            (f / "tables/adding_city.parquet").rename(f.parent / "kept"),
            (f / "tables/adding_city.parquet").symlink_to(f.parent / "kept"),
        ),
        "DP-VERIFY-004",
    ),
    "a link in place of the folder": (
        lambda f: (
            (f / "tables").rename(f.parent / "kept"),
            (f / "tables").symlink_to(f.parent / "kept"),
        ),
        "DP-VERIFY-004",
    ),
}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("what", STRANGE)
def test_unlisted_files_inside_a_release_are_found(what: str, tmp_path: Path) -> None:
    """verify finds them, and a later run does not replace the folder."""
    folder = publish_family(tmp_path)
    change, code = STRANGE[what]
    change(folder)
    assert {finding.code for finding in dprelease.verify(folder).findings} >= {code}
    if code == "DP-VERIFY-005" or "folder" in what:
        with pytest.raises(OutputError) as caught:
            publish_family(tmp_path, overwrite=True)
        assert caught.value.code == "DP-OUTPUT-009"
    else:
        assert dprelease.verify(publish_family(tmp_path, overwrite=True)).ok


def test_files_in_folders_have_rights_and_are_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and folders, before the release is readable."""
    stored: list[str] = []
    monkeypatch.setattr(
        "dprelease.release.folder._sync_to_disk", lambda path: stored.append(path.name)
    )
    mask = os.umask(0o027)
    try:
        folder = publish_family(tmp_path)
    finally:
        os.umask(mask)
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path
        assert path.name in stored


def test_mount_inside_a_release_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish_family(tmp_path)
    mounts = "dprelease.release.folder.is_mounted"
    monkeypatch.setattr(mounts, lambda path: path == folder / "tables")
    with pytest.raises(OutputError) as caught:
        publish_family(tmp_path, overwrite=True)
    assert (caught.value.code, "'tables'" in str(caught.value)) == ("DP-OUTPUT-009", True)


@pytest.mark.parametrize("start", ["o*/people", "l*/people", "**"])
def test_source_pattern_matching_output_files_is_refused(start: str, tmp_path: Path) -> None:
    """Through its own name, or through a link to the output folder."""
    path = write_family(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    source = f"{{path: '{start}/tables/*.parquet', format: parquet}}"
    (tmp_path / "people.yaml").write_text(SCHEMA.replace("people.csv", source))
    with pytest.raises(OutputError) as caught:
        run(read_declaration(path))
    assert caught.value.code == "DP-OUTPUT-012"


REFUSED: dict[str, tuple[str, str, str]] = {
    "private keys": (
        "rollup: [city, sex]", "marginals: [[city], [sex]]\n    private_keys: true",
        "its keys are not public",
    ),
    "a choice": ('{n: {count: "*"}}', "{n: {median: pay}}", "'n' is selected"),
    "a name": ('{n: {count: "*"}}', "{n: {mean: pay}}", "'n.sum' is the name of a key"),
    "what the step itself refuses": (
        '{n: {count: "*"}}', '{n: {count: "*"}, m: {sum: pay}}', "it adds up one column",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_queries_without_a_step_are_refused(what: str, tmp_path: Path) -> None:
    """By declared types alone: no source is opened."""
    old, new, words = REFUSED[what]
    text = RELEASE.replace(old, new, 1).replace("epsilon: 1", "epsilon: 1, delta: 1e-6")
    schema = SCHEMA
    if what == "a name":
        schema, text = (given.replace("sex", "n.sum") for given in (SCHEMA, text))
    path = write_family(tmp_path, text)
    (tmp_path / "people.yaml").write_text(schema)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(DpReleaseError) as caught:
        run(read_declaration(path))
    first = getattr(caught.value, "errors", [caught.value])[0]
    assert (first.code, words in first.cause) == ("DP-QUERY-013", True), first.cause
    assert first.place.key.startswith("queries.adding")
    assert not (tmp_path / "out").exists()


def test_steps_with_parties_are_refused(tmp_path: Path) -> None:
    text = RELEASE.replace("discrete_laplace", "auto").replace(
        "epsilon: 1", "epsilon: 1, delta: 1e-6"
    )
    path = write_family(tmp_path, text + "federated: {parties: 3}\n")
    with pytest.raises(DpReleaseError) as caught:
        prepare(read_declaration(path))
    assert "shares of integers" in str(caught.value)


def write_family_with_ledger(folder: Path) -> tuple[Path, Ledger]:
    """Return the release with a ledger, which holds ten times its price."""
    ledger = Ledger(folder / "ledger.sqlite")
    path = write_family(folder, RELEASE + "ledger: ledger.sqlite\n")
    ledger.open_account(
        Account(IDENTITY, "add_remove", "each row", Fraction(10), Fraction(0), None)
    )
    return path, ledger


def fail_at_second_table(
    self: AddingUp, noised: Sequence[NoisedTable], spread: Spread = in_threads
) -> Iterator[tuple[str, Batch]]:
    """Write one table, and fail at the next."""
    yield next(VALUES(self, noised))
    raise MemoryError


def kill_at_second_table(
    self: AddingUp, noised: Sequence[NoisedTable], spread: Spread = in_threads
) -> Iterator[tuple[str, Batch]]:
    yield next(VALUES(self, noised))
    os.kill(os.getpid(), signal.SIGKILL)


IDENTITY = "office/people"
VALUES = AddingUp.values


def test_failing_step_leaves_nothing_and_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows had been read: no budget is returned, and the error says so."""
    path, ledger = write_family_with_ledger(tmp_path)
    monkeypatch.setattr(AddingUp, "values", fail_at_second_table)
    with pytest.raises(MemoryError) as caught:
        run(read_declaration(path), bits=Keyed("family"))
    assert State.CHARGED.value in " ".join(caught.value.__notes__)
    assert list((tmp_path / "out").iterdir()) == []
    assert float(ledger.state().spent(IDENTITY)) == pytest.approx(1, rel=2e-3)


def test_run_killed_in_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is readable, all is charged, and the next run removes what was left."""
    path, ledger = write_family_with_ledger(tmp_path)
    child = os.fork()
    if child == 0:
        AddingUp.values = kill_at_second_table  # type: ignore[method-assign]
        try:
            run(read_declaration(path), bits=Keyed("family"))
        finally:
            os._exit(3)
    assert ended(child) == -signal.SIGKILL
    left = {file.name.split("-staging")[0] for file in (tmp_path / "out").iterdir()}
    assert left == {".people.dprelease", ".people.dprelease-lock"}
    assert float(ledger.state().spent(IDENTITY)) == pytest.approx(1, rel=2e-3)
    folder = run(read_declaration(path), bits=Keyed("family"))
    assert file_names(tmp_path / "out") == [f"people/{name}" for name in FILES]
    assert dprelease.verify(folder, ledger=tmp_path / "ledger.sqlite").ok
    assert float(ledger.state().spent(IDENTITY)) == pytest.approx(2, rel=2e-3)
