"""The size of a release is bounded before the run, and a disk without that space is refused."""

from __future__ import annotations

import json
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.cli.texts.plan_parts import disk_space_texts
from dprelease.errors import OutputError, Place, State
from dprelease.exact import duckdb
from dprelease.exact.results import vectors
from dprelease.planning.prepare import prepare
from dprelease.query.grouping.group_keys import Key
from dprelease.release import disk
from dprelease.release.disk import NearCounts, max_bytes, size_text
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration
from dprelease.tables.family_tables import PIECE_ROWS
from dprelease.tables.formats import write_table
from tests.release.area_family import BY_ID, TREE, publish_family, read_family
from tests.release.test_consistent import CASES, WHOLE
from tests.release.test_consistent_runs import open_ledger
from tests.replay import Keyed

WIDE: dict[str, dict[str, Any]] = {
    "noise of any size": {"budget": "epsilon: 1e-7, delta: 1e-6", "mechanism": "gaussian"},
    "cents": CASES["whole sums of cents"],
    "records": CASES["records"],
    "one cell": CASES["one cell"],
    "no family": {"consistent": "false", "asked": "group_by: [town, band, sex]"},
    "ages": {"asked": "hierarchy: [state, town]\n    cube: [age, sex]", "rows": 300},
    "many bands": {
        "asked": "hierarchy: [state, town]\n    group_by: [age]", "consistent": "{non_negative: true}",
        "budget": "epsilon: 1e-7, delta: 1e-6",
    },
}  # fmt: skip


def planned_bytes(declaration: Declaration) -> int:
    return max_bytes(prepare(declaration)[1].families)


@pytest.mark.share(0.4)
@pytest.mark.parametrize("what", WIDE)
def test_tables_take_at_most_the_planned_bytes(what: str, tmp_path: Path) -> None:
    """For any width of the noise. The bound is less than a hundred times too large."""
    folder = publish_family(tmp_path, **WIDE[what])
    known = what != "records"  # of which there are as many as people: nobody declares how many
    tables = [path for path in folder.rglob("*.parquet") if known or path.parent.name != "records"]
    written = sum(path.stat().st_size for path in tables)
    most = planned_bytes(read_family(tmp_path / "again", **WIDE[what]))
    assert written <= most
    assert most < 100 * written + (1 << 17)


def test_planned_bytes_of_many_cells_are_close(tmp_path: Path) -> None:
    """Wide noise can't be compressed: 10 bytes a cell."""
    path = tmp_path / "towns.csv"
    given: dict[str, Any] = {
        "budget": "epsilon: 1e-8, delta: 1e-6", "mechanism": "gaussian", "rows": 1,
        "asked": "hierarchy: [town]\n    group_by: [age, sex]",
    }  # fmt: skip
    read_family(tmp_path, **given)
    path.write_text("town,state\n" + "".join(f"a town {i:05},ZH\n" for i in range(800)))
    people = tmp_path / "people.yaml"
    people.write_text(people.read_text().replace("[ZH, BE, UR]", "[ZH]"))
    from dprelease.schema.load import read_declaration

    declaration = read_declaration(tmp_path / "release.yaml")
    most = planned_bytes(declaration)
    folder = run(declaration, bits=Keyed("disk"))
    written = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    assert written <= most < 3 * written


class SmallDisk:
    """A disk with so many free bytes, as `os.statvfs` returns it."""

    def __init__(self, free: int) -> None:
        self.free, self.asked = free, list[Path]()

    def __call__(self, folder: Path) -> Any:
        self.asked.append(Path(folder))
        blocks = self.free // 512
        found = [512, 512, 10**9, 10**9, blocks, 10**6, 10**6, 10**6, 0, 255]
        return os.statvfs_result(found)


@pytest.mark.parametrize("overwrite", [False, True])
def test_release_larger_than_the_disk_is_refused(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a row is read and before anything is charged; nothing is left."""
    if overwrite:
        publish_family(tmp_path)
    declaration = read_family(tmp_path, more="ledger: ledger.sqlite\n")
    ledger = open_ledger(tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    little = SmallDisk(10_000)
    monkeypatch.setattr(disk.os, "statvfs", little)
    monkeypatch.setattr(duckdb, "Engine", None)
    with pytest.raises(OutputError) as caught:
        run(declaration, overwrite=overwrite)
    assert caught.value.code == "DP-OUTPUT-015"
    assert "output" in caught.value.place.key
    assert caught.value.state is State.NOTHING
    assert len(ledger.history()) == 1
    after = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in after - before if "lock" not in path.name} == set()
    assert {folder.parent for folder in little.asked} == {tmp_path / "out"}


def test_release_that_just_fits_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration = read_family(tmp_path)
    needed: list[int] = []

    def seen(folder: Path, name: str, bytes_: int, place: Any, beside: object) -> None:
        needed.append(bytes_)

    monkeypatch.setattr("dprelease.release.execute.refuse_full_disk", seen)
    run(declaration)
    monkeypatch.undo()
    for free, fits in ((needed[0] + 512, True), (needed[0] - 512, False)):
        monkeypatch.setattr(disk.os, "statvfs", SmallDisk(free))
        if fits:
            assert run(declaration, overwrite=True).is_dir()
        else:
            with pytest.raises(OutputError, match="DP-OUTPUT-015"):
                run(declaration, overwrite=True)


def test_free_space_is_checked_on_the_disk_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is a link to a folder, which may be another mount."""
    (tmp_path / "elsewhere").mkdir()
    declaration = read_family(tmp_path / "release")
    (tmp_path / "release/out").symlink_to(tmp_path / "elsewhere")
    little = SmallDisk(1)
    monkeypatch.setattr(disk.os, "statvfs", little)
    with pytest.raises(OutputError, match="DP-OUTPUT-015"):
        run(declaration)
    assert {folder.parent.resolve() for folder in little.asked} == {tmp_path / "elsewhere"}


def test_size_texts() -> None:
    assert [size_text(n) for n in (0, 999, 1_500, 2_340_000, 10**13)] == [
        "0 bytes", "999 bytes", "1.5 kB", "2.34 MB", "10 TB",
    ]  # fmt: skip


def test_plan_shows_disk_space(tmp_path: Path) -> None:
    read_family(tmp_path)
    done = CliRunner().invoke(cli.app, ["plan", "--explain", str(tmp_path / "release.yaml")])
    assert "On the disk of 'out/pop': tables of at most" in done.stdout, done.output
    told = CliRunner().invoke(cli.app, ["plan", "--json", str(tmp_path / "release.yaml")])
    assert 1000 < json.loads(told.stdout)["tables_at_most"] < 10**6


@pytest.mark.parametrize("declared_too", [False, True])
def test_size_of_table_with_private_keys_is_unknown(declared_too: bool, tmp_path: Path) -> None:
    """The plan does not say 0 bytes; other tables keep their bound."""
    (tmp_path / "names.yaml").write_text(
        "table: names\nsource: names.csv\ncolumns: {name: {type: text}}\n"
    )
    release = tmp_path / "release.yaml"
    release.write_text(
        "title: t\ntables: [names.yaml]\nbudget: {epsilon: 1, delta: 1e-6}\noutput: out\nqueries:\n"
        "  found: {from: names, group_by: [name], private_keys: true, columns: {n: {count: '*'}}}\n"
        + "  all: {from: names, columns: {n: {count: '*'}}}\n"
        * declared_too
    )
    done = CliRunner().invoke(cli.app, ["plan", "--explain", str(release)])
    assert done.exit_code == 0, done.output
    words = "On the disk of 'out': " + "tables of at most" * declared_too
    assert words in done.stdout
    assert "a row for each key that is found" in done.stdout
    told = json.loads(CliRunner().invoke(cli.app, ["plan", "--json", str(release)]).stdout)
    assert told["tables_at_most"] is None


def column_of(kind: str, rows: int) -> pa.Array:
    """Return values that no encoding makes smaller."""
    rng = np.random.default_rng(rows)
    if kind == "bool":
        return pa.array(rng.integers(0, 2, rows).astype(bool))
    if kind.startswith("decimal"):
        words = rng.integers(-(2**62), 2**62, (rows, 2)) >> np.array([0, 3])
        buffers = [None, pa.py_buffer(words.astype("<i8").tobytes())]
        return pa.Array.from_buffers(pa.decimal128(38, 2), rows, buffers)
    numbers = rng.integers(-(2**62), 2**62, rows)
    return pa.array(numbers.view(np.float64) if kind == "double" else numbers)


@pytest.mark.parametrize("rows", [1, 1_000, 200_000])
@pytest.mark.parametrize("kind", ["int64", "double", "bool", "decimal128(38, 2)"])
def test_random_values_take_at_most_the_planned_bytes(kind: str, rows: int, tmp_path: Path) -> None:
    """Random bits in every column, as the writer of releases encodes and cuts them."""
    table = pa.table({f"c{i}": column_of(kind, rows) for i in range(3)})
    path = tmp_path / "t.parquet"
    write_table((table.slice(at, PIECE_ROWS) for at in range(0, rows, PIECE_ROWS)), path)
    file = disk._PlannedFile((), [(name, kind) for name in table.column_names], rows, dense=True)
    assert path.stat().st_size <= disk._file_bytes(file)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("length", [1, 40])
@pytest.mark.parametrize(("size", "inner"), [(200, 1), (200, 900), (150_000, 1)])
def test_random_keys_take_at_most_the_planned_bytes(
    size: int, inner: int, length: int, tmp_path: Path
) -> None:
    """Random texts, each repeated `inner` times in a row."""
    rng = np.random.default_rng(size)
    letters = rng.integers(33, 127, (size, length + 8)).astype(np.uint8)
    texts = tuple(dict.fromkeys(bytes(row).decode() for row in letters))
    keys = (Key("k", "text", texts), Key("n", "integer", range(inner)))
    rows = len(texts) * inner
    places = np.arange(rows) // inner
    table = pa.table({"k": pa.array(texts).take(pa.array(places)), "n": np.arange(rows) % inner})
    path = tmp_path / "t.parquet"
    write_table((table.slice(at, PIECE_ROWS) for at in range(0, rows, PIECE_ROWS)), path)
    file = disk._PlannedFile(keys, [("k", "string"), ("n", "int64")], rows, dense=True)
    assert path.stat().st_size <= disk._file_bytes(file)


def _people_counts(near: NearCounts, groups: int, worst: bool) -> np.ndarray:
    """Return noise and people: in few cells with very many, or as many different counts as can be.

    In groups of rows as a writer of outputs cuts them.
    """
    rng = np.random.default_rng(near.people)
    values = rng.integers(-near.steps, near.steps + 1, groups * PIECE_ROWS)
    each = near.people // groups
    most = int((2 * each) ** 0.5) - 1 if worst else min(each, 1)
    for group in range(groups):
        counts = np.arange(1, min(most, PIECE_ROWS) + 1) if worst else np.array([each])
        values[group * PIECE_ROWS : group * PIECE_ROWS + len(counts)] += counts
    return values


@pytest.mark.share(0.5)
@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("kind", ["int64", "decimal128(38, 2)"])
@pytest.mark.parametrize(
    ("steps", "people"),
    [(0, 10**6), (3, 10**9), (40, 0), (40, 10**7), (15_000, 0), (40_000, 10**6)],
)
def test_counts_of_people_take_at_most_the_planned_bytes(
    steps: int, people: int, kind: str, worst: bool, tmp_path: Path
) -> None:
    """Integers near to counts take fewer bytes than their width."""
    near, groups = NearCounts(steps, people), 3
    column = pa.array(_people_counts(near, groups, worst))
    if kind != "int64":
        column = column.cast(pa.decimal128(38, 2))
    table = pa.table({"c": column})
    path = tmp_path / "t.parquet"
    write_table((table.slice(at, PIECE_ROWS) for at in range(0, len(table), PIECE_ROWS)), path)
    file = disk._PlannedFile((), [("c", kind)], len(table), dense=True, near={"c": near})
    assert path.stat().st_size <= disk._file_bytes(file)
    assert disk._file_bytes(file) <= disk._file_bytes(replace(file, near={}))
    assert (
        steps > 100
        or people > 10**7
        or 3 * disk._file_bytes(file) < disk._file_bytes(replace(file, near={}))
    )


@pytest.mark.parametrize("listed", [1, 3])
@pytest.mark.parametrize("size", [20_000, 90_000])
def test_sparse_cells_take_at_most_the_planned_bytes(
    size: int, listed: int, tmp_path: Path
) -> None:
    """Very many areas with a few cells each: the writer starts dictionaries and abandons them."""
    rng = np.random.default_rng(size)
    letters = rng.integers(33, 127, (size, 20)).astype(np.uint8)
    texts = tuple(dict.fromkeys(bytes(row).decode() for row in letters))
    keys = (Key("k", "text", texts), Key("n", "integer", range(8)))
    places = np.arange(len(texts) * listed) // listed
    within = np.arange(len(places)) % listed * 2
    table = pa.table({"k": pa.array(texts).take(pa.array(places)), "n": within})
    path = tmp_path / "t.parquet"
    write_table((table.slice(at, PIECE_ROWS) for at in range(0, len(table), PIECE_ROWS)), path)
    file = disk._PlannedFile(keys, [("k", "string"), ("n", "int64")], len(table), dense=False)
    assert path.stat().st_size <= disk._file_bytes(file)


BY_ID_SIZED = BY_ID + "size: 200\n"


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("what", "unit"),
    [
        ("whole sums", "size: 300\n"), ("ages", "size: 150\n"), ("ids", BY_ID_SIZED),
        ("no family", "size: 300\n"),
    ],
)  # fmt: skip
def test_families_take_at_most_the_planned_disk_space(
    what: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published and temporary files, of integer tables that list some cells, in parts.

    There are twice as many people as declared, the number that the bound assumes.
    """
    monkeypatch.setattr("dprelease.postprocess.consistent.values.DENSE", 0)
    monkeypatch.setattr("dprelease.exact.families.LEAST_CELLS", 1)
    given = {"asked": TREE, "consistent": WHOLE, **{**CASES, **WIDE}.get(what, {}), "unit": unit}
    if what != "no family":
        more = "" if "sums" in what else ", records: true"
        given["consistent"] = f"{{non_negative: true, publish: {{partition: state{more}}}}}"
    held = TemporaryBytes.watch(monkeypatch)
    declaration = read_family(tmp_path, **given)
    queries, plan = prepare(declaration)
    folder = run(declaration, bits=Keyed("disk"))
    written = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    assert written <= max_bytes(plan.families)
    assert held.largest <= disk.temporary_bytes(queries)
    assert bool(held.largest) == (what != "no family")


class TemporaryBytes:
    """Current and largest number of bytes in temporary files."""

    def __init__(self) -> None:
        self.now = self.largest = 0

    @classmethod
    def watch(cls, monkeypatch: pytest.MonkeyPatch) -> TemporaryBytes:
        """Return a counter that counts from now on."""
        counted, append = cls(), vectors.StoredVector.append

        def counting(vector: vectors.StoredVector, values: Any) -> None:
            append(vector, values)
            counted.now += values.nbytes
            counted.largest = max(counted.largest, counted.now)
            weakref.finalize(vector, counted.less, values.nbytes)

        monkeypatch.setattr(vectors.StoredVector, "append", counting)
        return counted

    def less(self, number: int) -> None:
        """Subtract the bytes of a file that is removed."""
        self.now -= number


@pytest.mark.parametrize("same", [True, False])
def test_temporary_files_count_for_disk_space(
    same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the disk of the output they are added; on another disk they have to fit alone."""
    out, beside = tmp_path / "out", tmp_path / "beside"
    out.mkdir()
    beside.mkdir()
    device = os.stat(out).st_dev
    if not same:
        monkeypatch.setattr(disk, "_disk_number", lambda path: device + (path == beside))
    monkeypatch.setattr(disk, "free_bytes", lambda path: 100)
    place = Place("release.yaml")
    for needed, more in ((100, 0), (60, 40), (40, 100)):
        if same and needed + more > 100:
            with pytest.raises(OutputError, match=r"up to 140 bytes.*'out'"):
                disk.refuse_full_disk(out, "out", needed, place, (beside, more))
        else:
            disk.refuse_full_disk(out, "out", needed, place, (beside, more))
    with pytest.raises(OutputError, match="'out'" if same else "'beside'"):
        disk.refuse_full_disk(out, "out", 1, place, (beside, 101))


@pytest.mark.parametrize("unit", ["size: 600\n", ""])
def test_plan_shows_space_of_temporary_files(
    unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if the number of people is declared."""
    monkeypatch.setattr("dprelease.exact.families.LEAST_CELLS", 1)
    declaration = read_family(tmp_path, unit=unit)
    words = disk_space_texts(declaration, prepare(declaration)[1], 1, explain=True)
    assert ("In the temporary folder it uses at most" in words[0]) == bool(unit)
